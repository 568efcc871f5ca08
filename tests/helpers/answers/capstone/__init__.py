"""Right and wrong answers to the stages of the capstone."""
