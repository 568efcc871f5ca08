"""Answers to chapter 2's exercises."""
