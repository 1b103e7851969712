"""Replace flash-attn: the Python functions that packed samples need, and names for the rest.

Attention itself is transformers' own, which separates packed samples by their positions.
"""
