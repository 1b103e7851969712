"""Replaces flash-attn: what packed samples need of it in Python, and names for the rest.

Attention itself is transformers' own, which tells packed samples apart by their positions.
"""
