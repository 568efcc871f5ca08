"""Recorded experiments: run many seeds and settings once, keep the table, read it anywhere.

An experiment is a folder `results/NAME/`: the script `run.py`, the rows in `table.csv`, and in `facts.json`
seeds, settings, versions, machine and seconds. `record` writes the last two; `results` reads the table and
`facts` the rest, from a checkout as well as from an installed wheel.
"""

from ppobook.experiments.recording import record
from ppobook.experiments.tables import facts, names, results, results_folder

__all__ = ["facts", "names", "record", "results", "results_folder"]
