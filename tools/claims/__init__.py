"""Sentences that state a measurement, and what stands behind each."""
