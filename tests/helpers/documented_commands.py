"""Extract the commands of a shell block, as far as possible without running it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Final

_BETWEEN: Final = re.compile(r"^[;&|()]+$")
_REDIRECTION: Final = re.compile(r"^[<>]+&?$")
_ASSIGNMENT: Final = re.compile(r"^[A-Za-z_]\w*=")
_KEYWORDS: Final = {"do", "then", "else", "if", "while", "!"}
_FOR_TRL: Final = re.compile(r"docs/examples/trl_\w+\.py")
_SESSIONS: Final = {
    "verl.trainer.main_ppo": "verl",
    "verl.model_merger": "verl",
    "openrlhf.cli.train_ppo_ray": "openrlhf",
    "prompt_coevo.adapters.openrlhf": "openrlhf",
}


@dataclass(frozen=True)
class Command:
    """The words of one simple command, without assignments before it or redirections after it."""

    words: tuple[str, ...]

    @property
    def module(self) -> str | None:
        """Return the module that `python -m` runs."""
        python = self.words[0].startswith("python") and self.words[1:2] == ("-m",)
        return self.words[2] if python and len(self.words) > 2 else None

    @property
    def session(self) -> str:
        """Return the session that has the program's parser."""
        if self.words[0] != "bash" and any(_FOR_TRL.fullmatch(word) for word in self.words):
            return "trl"
        return _SESSIONS.get(self.module or "", "core")


@cache
def commands(text: str, language: str = "bash") -> tuple[Command, ...]:
    """Return all commands of a block. In a `console` block these are the lines that begin with `$`."""
    if language == "console":
        text = _typed(text)
    return tuple(_commands(text.replace("\\\n", " ")))


def _typed(text: str) -> str:
    """Return what was typed into a console: the lines after a prompt and their continuations."""
    kept, goes_on = [], False
    for line in text.splitlines():
        if goes_on or line.startswith("$ "):
            kept.append(line if goes_on else line[2:])
            goes_on = line.endswith("\\")
    return "\n".join(kept)


def _commands(text: str) -> Iterator[Command]:
    for line in _whole_lines(text):
        reader = shlex.shlex(line, posix=True, punctuation_chars=True)
        reader.whitespace_split = True
        for between, group in groupby(reader, key=lambda word: bool(_BETWEEN.match(word))):
            words = [] if between else _own_words(list(group))
            if words:
                yield Command(tuple(words))


def _whole_lines(text: str) -> Iterator[str]:
    """Yield lines, joined where a quotation spans several."""
    waiting = ""
    for line in text.splitlines():
        waiting += line + "\n"
        try:
            shlex.split(waiting, comments=True)
        except ValueError:
            continue  # a quotation is open
        yield waiting
        waiting = ""
    if waiting:
        raise ValueError(f"a quotation without an end: {waiting!r}")


def _own_words(words: list[str]) -> list[str]:
    if words[0] == "for":
        return []
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in _KEYWORDS):
        words = words[1:]
    kept: list[str] = []
    skip = False
    for word in words:
        if _REDIRECTION.match(word):
            skip = True
        elif skip:
            skip = False
        else:
            kept.append(word)
    return kept
