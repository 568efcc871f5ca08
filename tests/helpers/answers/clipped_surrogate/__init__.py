"""Answers to chapter 3's exercises."""
