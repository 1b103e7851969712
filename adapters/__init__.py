"""The doors: one thin adapter per training framework."""
