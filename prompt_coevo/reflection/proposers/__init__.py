"""Proposers: who writes new candidates, chosen by name."""
