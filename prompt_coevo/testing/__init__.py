"""Conformance tests ("laws") for adapters, algorithms and components by any author."""
