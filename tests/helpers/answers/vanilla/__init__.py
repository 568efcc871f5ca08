"""Answers to chapter 1's exercises."""
