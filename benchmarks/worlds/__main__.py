"""Make a base policy: `python benchmarks/worlds NAME --out DIR`; NAME is pairs, facts or search."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Final

MAKERS: Final = {
    "pairs": "worlds.pairs.pretrain",
    "facts": "worlds.facts.pretrain",
    "search": "worlds.search.policy",
}


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name not in MAKERS:
        raise SystemExit(__doc__)
    import_module(MAKERS[name]).main()


if __name__ == "__main__":
    main()
