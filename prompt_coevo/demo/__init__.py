"""A small world in which the papers' mechanisms have consequences, and a policy to train in it."""
