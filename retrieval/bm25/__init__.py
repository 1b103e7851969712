"""Search by words (BM25)."""
