"""The client of a retrieval server."""
