"""Search by words."""
