"""Answers to chapter 5's exercises."""
