"""Print constraints/versions.toml, and the main branches, as a matrix for .github/workflows."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

FILE = Path(__file__).parents[1] / "constraints" / "versions.toml"


def matrix() -> list[dict[str, str]]:
    """Return one entry for each framework and version."""
    known = tomllib.loads(FILE.read_text("utf-8"))
    return [
        {"framework": framework, "version": version}
        for framework, found in known.items()
        for version in [*found["tested"], "main"]
    ]


if __name__ == "__main__":
    print(json.dumps(matrix()))
