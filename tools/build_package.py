"""Build the wheel and the source distribution of the files that git tracks in this checkout.

    python tools/build_package.py FOLDER DIRECT

Both folders are emptied. FOLDER gets the source distribution and the wheel that is made from it, DIRECT
the wheel that is made without it, to compare them.

Needs `build`, setuptools and wheel: `python dev.py nox -s package` installs them and checks the result.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(*("__pycache__", ".*", "*.egg-info", "build", "dist", "runs"))
MOMENT = "1735689600"
"""The time stamp of every archived file, so that equal sources give equal bytes: 2025-01-01, in seconds."""


def main(folder: Path, direct: Path) -> None:
    for place in (folder, direct):
        shutil.rmtree(place, ignore_errors=True)
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary) / "tree"
        export(tree)
        build("--outdir", folder.resolve(), tree)
        shutil.rmtree(tree)
        export(tree)  # a fresh copy: setuptools leaves lists of files, and trusts them later
        build("--wheel", "--outdir", direct.resolve(), tree)


def export(tree: Path) -> None:
    """Copy the checkout: git's files, as they are now; without git, all but build leftovers."""
    if not (ROOT / ".git").exists():
        shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
        return
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)


def build(*arguments: object) -> None:
    """Build without a network: the build tools are already installed, with hashes."""
    command = [sys.executable, "-m", "build", "--no-isolation", *map(str, arguments)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": MOMENT}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: the build failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
