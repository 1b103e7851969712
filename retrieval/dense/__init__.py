"""Search by vectors."""
