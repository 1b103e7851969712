"""A run writes through `prompt_coevo/files.py` alone, which the tests of failing disks make fail."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
NO_RUN: Final = ("demo", "smoke", "testing", "cli")
"""Packages that write files of their own, outside a user's run."""
ALLOWED: Final = {
    "prompt_coevo/files.py": {"open", "replace", "write"},
    "prompt_coevo/file_lock.py": {"write"},  # into a lock file that is open
}
CALLS: Final = {"write_text", "write_bytes", "mkstemp", "NamedTemporaryFile", "dump", "savez"}
OF_OS: Final = {"open", "write", "replace", "rename", "truncate"}


def writers(source: str) -> Iterator[str]:
    """Yield the names of the calls that may write to a file."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Attribute(ast.Name("os"), name) if name in OF_OS:
                yield name
            case ast.Attribute(ast.Name("file"), "write"):
                yield "write"
            case ast.Attribute(_, name) if name in CALLS:
                yield name
            case ast.Attribute(_, "open") | ast.Name("open") if _writes(node):
                yield "open"


def _writes(call: ast.Call) -> bool:
    values = [*call.args, *(one.value for one in call.keywords)]
    texts = [one.value for one in values if isinstance(one, ast.Constant)]
    return any(
        isinstance(one, str) and set(one) <= set("rwxabt+") and set(one) & set("wxa+")
        for one in texts
    )


def run_files() -> list[Path]:
    return [
        path
        for folder in ("prompt_coevo", "adapters")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not set(path.relative_to(ROOT / folder).parts) & set(NO_RUN)
    ]


def test_every_write_passes_the_one_place() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): set(writers(path.read_text("utf-8")))
        for path in run_files()
    }
    assert len(found) > 150
    assert {name: calls for name, calls in found.items() if calls} == ALLOWED


@pytest.mark.parametrize(
    "line",
    [
        "Path('x').write_text('y')",
        "path.open('w', encoding='utf-8')",
        "path.open(mode='ab')",
        "open(path, 'x')",
        "os.replace(a, b)",
        "json.dump(value, stream)",
    ],
)
def test_a_write_elsewhere_is_found(line: str) -> None:
    assert list(writers(line))


@pytest.mark.parametrize(
    "line", ["path.open('rb')", "open(path)", "text.replace('a', 'b')", "index.open('a name')"]
)
def test_reading_is_no_write(line: str) -> None:
    assert not list(writers(line))
