"""Answers to the final assessment."""
