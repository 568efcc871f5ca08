"""The part that every training run shares, control or language.

A run's folder::

    config.json               everything that was asked for, for people
    history.csv               one row an update, for people and plots; times are in columns named seconds…
    checkpoint-000120/        everything needed to resume from update 120; the last two are kept
        state.pt              weights, optimizers, random generators, history; read with weights_only=True

A trainer may keep further files beside `state.pt`. Guarantees:

- a run that is killed at any moment and resumed ends with the same bits as one that was not;
- Ctrl-C, SIGTERM and SIGHUP wait for the update in progress and save it;
- only one process at a time trains in a folder;
- a checkpoint is complete: it is written as `….part` and then renamed.

One file, one job: `loop` starts, updates, saves and stops; `checkpoint`, `folder` and `files` are the disk;
`history` and `metrics` the table; `state` the part that a learner saves; `config` and `registry` what was
asked for, and of which class; `base` the object that training returns.
"""
