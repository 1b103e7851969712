"""Meet thresholds of a reward in the precision that trainers keep rewards in."""

from __future__ import annotations

from ctypes import c_float


def in_single_precision(threshold: float) -> float:
    """Return the least reward that reaches a threshold. Trainers keep rewards in single precision, where .9
    becomes slightly less; there the threshold does, too."""
    return min(threshold, c_float(threshold).value)
