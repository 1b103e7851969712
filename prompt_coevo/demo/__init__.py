"""A small world in which the papers' mechanisms matter, and a policy to train in it."""
