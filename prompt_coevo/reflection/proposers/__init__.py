"""Proposers, which write new candidates; chosen by name."""
