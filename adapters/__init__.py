"""The adapters: one thin adapter per training framework."""
