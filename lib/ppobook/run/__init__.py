"""What every training run shares, control or language.

A run's folder::

    config.json               everything that was asked for, for people
    history.csv               one row an update, for people and plots; times are in columns named seconds…
    checkpoint-000120/        everything needed to resume from update 120; the last two are kept
        state.pt              weights, optimizers, random generators, history; read with weights_only=True

A trainer may keep further files beside `state.pt`. Guarantees:

- a run that is killed at any moment and resumed ends with the same bits as one that was not;
- Ctrl-C, SIGTERM and SIGHUP wait for the update in progress and lose nothing; whatever is raised, the
  updates before it are saved (those of large models only if it has not changed the weights yet);
- only one process at a time trains in a folder;
- a checkpoint is complete: it is written as `….part` and then renamed.

One file, one job: `loop` updates, saves and stops; `training` starts or resumes a loop; `checkpoint`,
`folder`, `lock` and `files` are the disk; `history` and `metrics` the table; `state` what a learner saves;
`config` and `registry` what was asked for, and of which class; `base` the object that training returns; `old`
reads runs of earlier versions.
"""
