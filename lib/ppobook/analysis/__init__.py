"""What one does with finished runs: diagnose, compare, watch, export."""
