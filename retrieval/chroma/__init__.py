"""Chroma, a vector database, as a retriever, and how an index is loaded into it."""
