"""Answers to chapter 10's exercises."""
