"""Search by vectors (dense retrieval)."""
