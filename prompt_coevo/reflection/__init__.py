"""The reflection model, its budgets, and the proposers that use it."""
