"""What every training run shares, whatever it trains: settings, history, checkpoints, the loop, stopping.

A run's folder::

    config.json               what was asked for, for people
    history.csv               one row an update, for people and plots; times are in columns named seconds…
    checkpoint-000120/        all that is needed to go on from update 120; the last two are kept
        state.pt              weights, optimizers, random generators, history; read with weights_only=True

Beside `state.pt` a trainer may keep files of its own. What this package promises: a run that is killed at any
moment and resumed is, to the bit, the run that was not; Ctrl-C waits for the update under way and loses
nothing; only one process at a time trains in a folder; and a checkpoint is whole wherever there is one, for
it is written under another name, `….part`, and then renamed.
"""
