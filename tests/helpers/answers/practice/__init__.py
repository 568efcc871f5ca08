"""Answers to chapter 6's exercises."""
