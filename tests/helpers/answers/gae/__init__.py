"""Answers to chapter 4's exercises."""
