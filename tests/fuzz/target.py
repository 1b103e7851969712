"""Define a fuzz target: a function of bytes that raises only if a parser breaks its promise."""

from __future__ import annotations

import atexit
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_PIECES: Final = (
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x91\x8d",
    b'"',
    b"{",
    b"}",
    b"[" * 2000,
    b"[" * 60,
    b"]",
    b",",
    b"\n",
    b"<",
    b"</",
    b">",
    b"1e999",
    b"9" * 4400,
    b"null",
    b"2001-99-99",
)
_LONGEST: Final = 4096


@dataclass(frozen=True)
class Target:
    """Run any bytes through `run`; an exception is a finding. `seeds` are the first inputs.

    `weight` scales its share of the inputs: slower targets get fewer.
    """

    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...] = (b"",)
    weight: float = 1.0


def inputs(target: Target, count: int, seed: int) -> Iterator[bytes]:
    """Yield the seeds, then mutated seeds; the same seed always gives the same inputs."""
    rng = random.Random(seed)
    yield from target.seeds[:count]
    for _ in range(count - len(target.seeds)):
        data = bytearray(rng.choice(target.seeds) if rng.random() < 0.9 else b"")
        for _ in range(1 << rng.randrange(5)):
            _change(data, rng)
        yield bytes(data[:_LONGEST])


def _change(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data) + 1)
    match rng.randrange(5):
        case 0:
            data[place:place] = rng.choice(_PIECES)
        case 1:
            data[place:place] = rng.randbytes(1 + rng.randrange(8))
        case 2:
            del data[place : place + 1 + rng.randrange(8)]
        case 3:
            data[place : place + 1] = rng.randbytes(1)
        case _:
            start = rng.randrange(len(data) + 1)
            data[place:place] = data[start : start + rng.randrange(32)]


@cache
def scratch() -> Path:
    """Return a folder for this process's files, in memory where possible."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
