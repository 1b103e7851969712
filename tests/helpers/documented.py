"""Find the code blocks in README and docs, and the session that checks each of them.

A block is checked by what it is: a command by the parser of its program, settings as settings, Python by
running it in the core's environment, or as a part of a file that is tested itself. What needs more says so
in a comment in the line before its fence, which no reader sees:

    <!-- prepared: trl -->

`PREPARED` has the names, and the session whose `test_documents.py` prepares and runs such blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from helpers.documented_commands import Command, commands

ROOT: Final = Path(__file__).parents[2]
PREPARED: Final = {
    "settings": "core",  # `Settings` is imported
    "data": "core",  # JSON, YAML or TOML that is no settings: it is parsed
    "method": "core",  # a method is registered under the name `mine`, and the laws are put to it
    "plugins": "plugins",  # as settings, with the two methods from docs/plugins installed
    "module": "retrieval",  # a module of one's own, whose first line names its file
    "remote": "retrieval",  # a server is there for http://a:8000 and http://b:8000
    "trl": "trl",  # a model, data, rewards and their GRPOTrainer; an OpenAI server; it trains
    "search": "trl",  # the search agent's trainer is built
    "parquet": "trl",  # a folder with Search-R1's data as they are downloaded
    "questions": "trl",  # `questions.jsonl` is there
    "adapter": "trl",  # the tested harness is called MyAdapterUnderTest
    "verl": "verl",  # an agent loop's file
    "openrlhf": "openrlhf",  # an agent's file
}
"""The preparations of blocks, and the session that has each."""
TEST_FILES: Final = {
    "core": "tests/core/documents/test_blocks.py",
    "plugins": "tests/plugins/test_documents.py",
    "retrieval": "tests/retrieval/test_documents.py",
    "trl": "tests/trl/test_documents.py",
    "verl": "tests/verl/test_documents.py",
    "openrlhf": "tests/openrlhf/test_documents.py",
}
# A block that is cut out of one of these is tested with it.
TESTED_FILES: Final = (
    "docs/examples/own_trainer.py",
    "docs/examples/own_adapter.py",
    "docs/examples/own_loop.py",
    "docs/examples/qdrant_retriever.py",
    "docs/examples/trl_quickstart.py",
    "docs/examples/verl_quickstart.sh",
    "docs/examples/openrlhf_quickstart.sh",
    "prompt_coevo/algorithms/hints/__init__.py",
    "prompt_coevo/algorithms/hints/plugin.py",
    "prompt_coevo/algorithms/hints/settings.py",
    "tests/laws/trl/test_adapter.py",
    "tests/trl/test_environments.py",
)
SHELL: Final = ("bash", "console")
DATA: Final = ("toml", "yaml", "json")
_FENCE: Final = re.compile(
    r"^(?P<indent> *)(?P<fence>```+|~~~+)(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=indent)(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"<!-- prepared: ([\w-]+) -->\s*\Z")


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, first line number, language, text and preparation."""

    page: str
    line: int
    language: str
    text: str
    prepared: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def cut_out_of(self) -> str | None:
        """Return the tested file that contains the whole block."""
        return next((name for name in TESTED_FILES if self.text in _text(name)), None)

    def sessions(self) -> set[str]:
        """Return the sessions that check it; none if no session knows how."""
        if self.prepared:
            return {PREPARED[self.prepared]} if self.prepared in PREPARED else set()
        if self.cut_out_of():
            return {"core"}
        if self.language in SHELL:
            return {"core"} | {command.session for command in commands(self.text, self.language)}
        return {"core"} if self.language in ("python", "text", *DATA) else set()


def pages() -> list[Path]:
    """Return the pages beside the README and in docs, except those of installed plugins."""
    docs = [path for path in (ROOT / "docs").rglob("*.md") if "build" not in path.parts]
    return sorted([*ROOT.glob("*.md"), *docs])


@cache
def blocks() -> tuple[Block, ...]:
    """Return all blocks of all pages. For equal blocks, one preparation comment is enough."""
    found = [block for page in pages() for block in blocks_of(page)]
    known = {block.text: block.prepared for block in found if block.prepared}
    return tuple(replace(block, prepared=known.get(block.text, "")) for block in found)


def blocks_of(page: Path) -> Iterator[Block]:
    yield from blocks_in(page.read_text("utf-8"), str(page.relative_to(ROOT)))


def blocks_in(text: str, page: str) -> Iterator[Block]:
    for found in _FENCE.finditer(text):
        lines = found["text"].splitlines(keepends=True)
        body = "".join(line.removeprefix(found["indent"]) for line in lines)
        comment = _COMMENT.search(text, 0, found.start())
        prepared = comment[1] if comment else ""
        line = text.count("\n", 0, found.start()) + 2
        yield Block(page, line, found["language"].strip(), body, prepared)


def blocks_for(session: str, *prepared: str) -> list[Block]:
    """Return the blocks that a session checks, duplicates once, optionally only with these preparations."""
    mine = {block.text: block for block in blocks() if session in block.sessions()}
    return [block for block in mine.values() if not prepared or block.prepared in prepared]


def documented_commands(session: str) -> list[Any]:
    """Return pytest parameters: each command that this session can parse, once, with its position."""
    found: dict[Command, str] = {}
    for block in blocks_for(session):
        if block.language in SHELL and not block.cut_out_of():
            for command in commands(block.text, block.language):
                if command.session == session:
                    found.setdefault(command, f"{block} {' '.join(command.words)[:60]}")
    return [pytest.param(command, id=name) for command, name in found.items()]


@cache
def _text(name: str) -> str:
    path = ROOT / name
    return path.read_text("utf-8") if path.exists() else ""
