"""Provide worlds and base policies for benchmarks and tests; they are in no wheel."""
