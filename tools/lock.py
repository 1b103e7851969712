"""Write the requirements of all environments, with hashes: constraints/NAME.txt from environments.toml.

    python dev.py nox -s lock                     what has changed in environments.toml or pyproject.toml
    python dev.py nox -s lock -- trl --upgrade    the newest versions that fit, for one environment

A version is kept as long as it fits. The files name no index, and hold for all platforms, except for an
environment with its own `platform`. Packages in `without` are left out, whatever requires them.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "constraints"
MADE = "# Made by: python dev.py nox -s lock\n"
OPTIONS = (
    *("--python-version", "3.11", "--generate-hashes", "--quiet"),
    *("--no-annotate", "--no-header", "--no-emit-index-url", "--no-emit-find-links"),
)
# Packages that only torch's CUDA builds need; the environments have the CPU build, and triton if required.
UNWANTED = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)==")


def main(names: list[str], *, upgrade: bool) -> None:
    environments = tomllib.loads((FOLDER / "environments.toml").read_text("utf-8"))
    for name in names or environments:
        environment = environments[name]
        old = FOLDER / f"{name}.txt"
        known = "" if upgrade or not old.exists() else old.read_text("utf-8")
        packages, extras = environment.get("packages", []), environment.get("extras", [])
        platform = environment.get("platform")
        where = ("--python-platform", platform) if platform else ("--universal",)
        without = environment.get("without", [])
        found = compiled(packages, extras, known, *where, without=without)
        alone = environment.get("without_requirements", [])
        found += compiled(alone, [], known, *where, "--no-deps")
        asked = {*packages, *alone} - {"torch"}
        old.write_text(MADE + "".join(wanted(found, asked)), "utf-8", newline="\n")
        print(f"{old.relative_to(ROOT)}: {len(found)} packages")


def compiled(
    packages: list[str], extras: list[str], known: str, *options: str, without: Iterable[str] = ()
) -> list[str]:
    """Return the resolved requirements, a text for each; versions in `known` are kept."""
    if not packages and not extras:
        return []
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "asked.in", Path(folder) / "answered.txt"
        torch = (FOLDER / "torch.txt").read_text("utf-8")
        asked.write_text("\n".join(packages), "utf-8")
        answered.write_text(known, "utf-8")
        (Path(folder) / "torch.txt").write_text(torch, "utf-8")
        never = "\n".join(f"{name} ; sys_platform == 'never'" for name in without)
        (Path(folder) / "without.txt").write_text(never, "utf-8")
        sources = [asked, *([ROOT / "pyproject.toml"] if extras else [])]
        chosen = [word for extra in extras for word in ("--extra", extra)]
        command = ["uv", "pip", "compile", *OPTIONS, *options, *chosen]
        command += ["--constraints", Path(folder) / "torch.txt"]
        command += ["--overrides", Path(folder) / "without.txt", "-o", answered, *sources]
        run(command)
        return re.findall(r"^\S.*(?:\n[ \t].*)*\n", answered.read_text("utf-8"), re.MULTILINE)


def run(command: list[Any]) -> None:
    """Run; where no CPU build of torch is visible, uv finds one itself."""
    first = subprocess.run(command, check=False, capture_output=True, text=True)
    if first.returncode:
        subprocess.run([*command, "--torch-backend", "cpu"], check=True)


def wanted(found: list[str], asked: set[str]) -> list[str]:
    return sorted(
        text for text in found if text.partition("==")[0] in asked or not UNWANTED.match(text)
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="environments; all if none is named")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    given = parser.parse_args()
    main(given.names, upgrade=given.upgrade)
