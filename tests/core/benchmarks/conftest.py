"""Put the benchmarks' folders on the import path, because their modules import each other as siblings."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "benchmarks" / "methods"
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "soak")]
