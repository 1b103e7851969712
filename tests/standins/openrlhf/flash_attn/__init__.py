"""Replaces flash-attn by names: OpenRLHF imports them and uses them for packed samples only."""
