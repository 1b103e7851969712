"""The checks before the first training step, and the page of their results."""
