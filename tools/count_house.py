"""Count files, lines, imports and settings, as JSON: `python tools/count_house.py [CHECKOUT]`.

Rooms are folders; an arrow is a pair of rooms of which one imports the other, when it is loaded or later.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

ROOTS = (
    ("prompt_coevo", "prompt_coevo"),
    ("adapters", "prompt_coevo.adapters"),
    ("retrieval", "prompt_coevo.retrieval"),
)
ADAPTERS = ("trl", "verl", "openrlhf")
SMALL = 30


def main(arguments: list[str]) -> None:
    checkout = Path(arguments[0] if arguments else Path(__file__).parents[1]).resolve()
    print(json.dumps(counts(checkout), indent=1))


def counts(checkout: Path) -> dict[str, Any]:
    """Count what needs no execution."""
    modules = dict(_modules(checkout))
    lines = {name: len(path.read_text("utf-8").splitlines()) for name, path in modules.items()}
    imports = {name: _imports(path, set(modules)) for name, path in modules.items()}
    rooms = {name: _room(name, path) for name, path in modules.items()}
    arrows = {
        (rooms[name], rooms[other])
        for name, others in imports.items()
        for other in others
        if rooms[name] != rooms[other]
    }
    readers = defaultdict(set)
    for name, others in imports.items():
        for other in others:
            readers[other].add(name)
    small = [
        name
        for name, size in lines.items()
        if size < SMALL and len(readers[name]) == 1 and modules[name].name != "__init__.py"
    ]
    largest = max(lines, key=lambda name: lines[name])
    return {
        **_interface(checkout),
        "files": len(modules),
        "lines": {
            folder: sum(lines[name] for name, path in modules.items() if path.is_relative_to(at))
            for folder, at in ((folder, checkout / folder) for folder, _ in ROOTS)
        },
        "rooms": len(set(rooms.values())),
        "arrows": len(arrows),
        "circle of modules": _circle(imports),
        "circle of rooms": _circle(_graph(arrows)),
        "largest file": {largest: lines[largest]},
        f"files under {SMALL} lines that one other file uses": sorted(small),
        "Any per 1000 lines": {folder: _anys(checkout / folder) for folder, _ in ROOTS},
        "lines an adapter": {
            adapter: sum(lines[name] for name in modules if f".adapters.{adapter}" in name)
            for adapter in ADAPTERS
        },
    }


def _modules(checkout: Path) -> Iterator[tuple[str, Path]]:
    for folder, package in ROOTS:
        for path in sorted((checkout / folder).rglob("*.py")):
            parts = path.relative_to(checkout / folder).with_suffix("").parts
            yield ".".join([package, *parts]).removesuffix(".__init__"), path


def _imports(path: Path, known: set[str]) -> set[str]:
    """Return the modules that a file imports when it is loaded; type-only imports do not count."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    names: set[str] = set()
    for node in tree.body:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import):
                names |= {alias.name for alias in inner.names}
            elif isinstance(inner, ast.ImportFrom) and inner.module:
                whole = {f"{inner.module}.{alias.name}" for alias in inner.names} & known
                names |= whole or {inner.module}
    return names & known


def _room(name: str, path: Path) -> str:
    return name if path.name == "__init__.py" else name.rpartition(".")[0]


def _graph(arrows: set[tuple[str, str]]) -> dict[str, set[str]]:
    graph: dict[str, set[str]] = defaultdict(set)
    for start, end in arrows:
        graph[start].add(end)
    return graph


def _circle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _anys(folder: Path) -> float:
    texts = [path.read_text("utf-8") for path in folder.rglob("*.py")]
    anys = sum(len(re.findall(r"\bAny\b", text)) for text in texts)
    return round(1000 * anys / sum(len(text.splitlines()) for text in texts), 1)


def _interface(checkout: Path) -> dict[str, int]:
    """Count the user-visible interface from the files, so that any checkout can be counted."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text("utf-8"))["project"]
    hooks = (checkout / "prompt_coevo" / "hookspecs.py").read_text("utf-8")
    table = (checkout / "docs" / "settings.md").read_text("utf-8")
    commands = (checkout / "docs" / "cli.md").read_text("utf-8")
    return {
        "settings": len(re.findall(r"^\| `[a-z_.0-9]+` \|", table.split("\n## ")[0], re.MULTILINE)),
        "hooks": len(re.findall(r"^def coevo_", hooks, re.MULTILINE)),
        "commands": len(re.findall(r"^#{2,4} `prompt-coevo [a-z ]+`", commands, re.MULTILINE)),
        "extras": len(project["optional-dependencies"]),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
