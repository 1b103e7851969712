"""The retrieval server, in Search-R1's format."""
