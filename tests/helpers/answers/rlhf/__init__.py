"""Answers to chapter 7's exercises."""
