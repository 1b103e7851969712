"""Worlds and base policies that benchmarks and tests train in; they are in no wheel."""
