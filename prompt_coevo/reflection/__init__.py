"""The reflection model, what it may cost, and the proposers that ask it."""
