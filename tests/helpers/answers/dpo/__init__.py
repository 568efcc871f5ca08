"""Answers to chapter 9's exercises."""
