"""Write docs/licences.md: the licences of all packages in the environments, and what requires them.

python dev.py nox -s sbom          after the sessions that make the environments
python tools/licences.py FOLDER    which has an environment of each name below
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

PAGE = Path(__file__).resolve().parent.parent / "docs" / "licences.md"
OURS = "prompt-coevo"
NOT_STATED = "not stated"
# Environments, and the extras that are in them. Of what OpenRLHF requires some is installed nowhere.
EXTRAS = {
    "core": ["", "llm"],
    "browser": ["report"],
    "retrieval": ["retrieval", "encoder"],
    "trl": ["trl", "demo"],
    "verl": ["verl"],
    "openrlhf": ["openrlhf"],
    "package": [],
    "lint": [],
}
COPYLEFT = re.compile(
    r"\b([AL]?GPL|GNU|Affero|MPL|Mozilla|EPL|Eclipse|CDDL|EUPL|OSL|Sleepycat|SSPL|CC-BY-SA)", re.I
)
# The weak ones that are known: files under them stay under them, what uses them does not come under them.
KNOWN = {
    "certifi": "MPL-2.0: a list of certificates, unchanged",
    "orjson": "MPL-2.0 for a part of it, else Apache-2.0 or MIT; unchanged",
    "tqdm": "MPL-2.0 for its older parts, else MIT; unchanged",
}

Facts: TypeAlias = dict[str, dict[str, object]]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def licence(package: metadata.PackageMetadata) -> str:
    """Return the package's licence: an SPDX expression, else its classifiers, else a line of text."""
    if expression := package.get("License-Expression"):
        return str(expression)
    classifiers = package.get_all("Classifier") or []
    found = [one.split(" :: ")[-1] for one in classifiers if one.startswith("License :: ")]
    if named := [one for one in found if one != "OSI Approved"]:
        return " AND ".join(named)
    text = str(package.get("License") or "").strip().splitlines()
    return text[0][:60] if text else NOT_STATED


def is_copyleft(text: str) -> bool:
    """Tell whether it names copyleft, except as one of several licences to choose from."""
    parts = [text] if " AND " in text else text.split(" OR ")
    return all(COPYLEFT.search(one) for one in parts)


def installed() -> dict[str, str]:
    """Return the licence of every package of this environment but ours."""
    packages = {canonical(one.metadata["Name"]): one for one in metadata.distributions()}
    outside = (name for name in packages if not name.startswith(OURS))
    return {name: licence(packages[name].metadata) for name in sorted(outside)}


def brought_by(extra: str) -> set[str]:
    """Return what our package requires here with the extra; "" is none. Needs `packaging`."""
    from packaging.requirements import Requirement

    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [(OURS, extra), (OURS, "")]
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        try:
            required = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        found.add(canonical(name))
        for one in map(Requirement, required):
            if one.marker is None or one.marker.evaluate({"extra": wanted}):
                waiting += [(canonical(one.name), more) for more in ("", *one.extras)]
    return found - {OURS}


def table(environments: dict[str, Facts]) -> str:
    """Return the page's table."""
    licences: dict[str, str] = {}
    extras: dict[str, set[str]] = {}
    for facts in environments.values():
        licences |= {name: str(text) for name, text in facts["licences"].items()}
        for extra, names in facts["extras"].items():
            for name in names:  # type: ignore[attr-defined]
                extras.setdefault(name, set()).add(extra)
    rows = ["| package | licence | comes with |", "|---|---|---|"]
    for name, text in sorted(licences.items()):
        brings = extras.get(name, set())
        comes = "the package" if "" in brings else ", ".join(f"`{one}`" for one in sorted(brings))
        rows.append(f"| {name} | {' '.join(text.split()).replace('|', '/')} | {comes or 'tests'} |")
    return "\n".join(rows)


def facts_of(name: str, folder: Path) -> Facts:
    """Query the environment's own Python."""
    command = [folder / name / "bin" / "python", "-P", __file__, "--of", name]
    found: Facts = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def page(folder: Path) -> str:
    return HEAD + table({name: facts_of(name, folder) for name in EXTRAS}) + "\n"


KNOWN_ROWS = "\n".join(f"| {name} | {why} |" for name, why in KNOWN.items())
HEAD = f"""# Licences

The package is under Apache-2.0. Below is all that its environments have installed, what a user gets with
it, and the licence that each states of itself. Made by `python dev.py nox -s sbom` on Linux; tests compare
it with what is installed and with `constraints/`. It has no vllm, no faiss for GPUs and no library of CUDA,
and of what openrlhf requires only what is installed for the tests. openrlhf states none in its metadata;
its file LICENSE is Apache-2.0.

No strong copyleft comes with the package or an extra. Weak copyleft, which ends at the package's own files:

| package | |
|---|---|
{KNOWN_ROWS}

"""

if __name__ == "__main__":
    if sys.argv[1] == "--of":
        extras = {extra: sorted(brought_by(extra)) for extra in EXTRAS[sys.argv[2]]}
        print(json.dumps({"licences": installed(), "extras": extras}))
    else:
        PAGE.write_text(page(Path(sys.argv[1])), "utf-8")
