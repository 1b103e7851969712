"""What the searches for templates share: which questions are hard, and the numbers of a round."""
