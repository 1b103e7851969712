"""Compare every pinned version with the OSV database of known vulnerabilities.

    python dev.py nox -s audit [-- --ignore-vuln ID]

Options go to pip-audit. Fails for a vulnerability, and if the database cannot be reached.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from itertools import zip_longest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "constraints"


def versions() -> dict[str, list[str]]:
    """Return the versions of each package in all environments."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in FOLDER.glob("*.txt"):
        for name, version in re.findall(
            r"^([\w.-]+)==([^\s;]+)", path.read_text("utf-8"), re.MULTILINE
        ):
            found[name].add(version)
    return {name: sorted(those) for name, those in sorted(found.items())}


def main(options: list[str]) -> int:
    """Return 1 if a version is known to be vulnerable or cannot be looked up, else 0."""
    known, failed = versions(), 0
    # pip-audit takes one version of a package at a time.
    for versions_of_each in zip_longest(*known.values()):
        pins = [
            f"{name}=={version}\n"
            for name, version in zip(known, versions_of_each, strict=True)
            if version
        ]
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.writelines(pins)
            file.flush()
            command = ["pip-audit", "--no-deps", "--disable-pip", "--vulnerability-service", "osv"]
            failed |= subprocess.run([*command, "-r", file.name, *options], check=False).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
