"""INSPO (arXiv 2512.01945): a population of instructions that learns with the policy."""
