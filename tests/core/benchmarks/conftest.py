"""The benchmarks' modules are siblings in a folder that is run, so these folders are on the path here."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "benchmarks" / "methods"
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "soak")]
