"""Tools for finished runs: diagnose, compare, watch."""
