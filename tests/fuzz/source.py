"""Build values from a fuzzer's bytes: texts, numbers, JSON trees, and damaged trees."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any, Final, TypeVar

T = TypeVar("T")

ODD_TEXTS: Final = (
    "",
    " ",
    "\0",
    "\ud800",
    "é",
    "e\u0301",
    "\u202e",
    "\u200d",
    "<template>",
    "</ins_1>",
    "{{template}}",
    "q1",
    "../../x",
    "/dev/null",
    "x" * 300,
    "9" * 5000,
    "2001-99-99",
    "1e999",
    "nan",
)
ODD_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    1 << 31,
    1 << 63,
    -(1 << 63) - 1,
    10**30,
    int("9" * 4300),
    0.5,
    -0.0,
    1e308,
    float("inf"),
    float("nan"),
    [],
    {},
    [[]],
    [0, 1],
    [None],
    {"": None},
    {"q1": 1},
)
_DEPTHS: Final = (3, 60, 300, 900, 990)


class Source:
    """Take values from the front of the bytes, and the simplest ones once they are used up."""

    def __init__(self, data: bytes, *, deep: bool = True) -> None:
        """Include values nested too deep for some parsers if `deep`."""
        self._data = data
        self._place = 0
        self._deep = deep

    @property
    def left(self) -> int:
        """Return how many bytes are unused."""
        return len(self._data) - self._place

    def byte(self) -> int:
        if not self.left:
            return 0
        self._place += 1
        return self._data[self._place - 1]

    def below(self, count: int) -> int:
        """Return a number from 0 to `count` - 1; `count` is at most 65536."""
        number = self.byte() if count <= 256 else self.byte() << 8 | self.byte()
        return number % count

    def flag(self) -> bool:
        return self.byte() & 1 == 1

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def bytes(self, most: int = 64) -> bytes:
        start = self._place
        self._place = min(len(self._data), start + self.below(most + 1))
        return self._data[start : self._place]

    def rest(self) -> bytes:
        start, self._place = self._place, len(self._data)
        return self._data[start:]

    def text(self, most: int = 64) -> str:
        """Return any characters, including halves of surrogate pairs."""
        if self.byte() % 8 == 1:
            return self.pick(ODD_TEXTS)
        return as_text(self.bytes(most))

    def value(self, depth: int = 3) -> Any:
        """Return a JSON value."""
        kind = self.byte() % (8 if depth else 5)
        if kind == 0:
            return copy.deepcopy(self.pick(ODD_VALUES))
        if kind in (1, 2):
            return self.text()
        if kind == 3:
            return int.from_bytes(self.bytes(9), "big", signed=True)
        if kind == 4:
            return (
                nested(self.pick(_DEPTHS))
                if self._deep and self.byte() == 7
                else self.below(256) / 16
            )
        count = self.below(5)
        if kind == 5:
            return [self.value(depth - 1) for _ in range(count)]
        return {self.text(): self.value(depth - 1) for _ in range(count)}

    def wrong(self, tree: Any) -> Any:
        """Return a copy of the JSON tree with one to four things replaced, left out or added."""
        found = [copy.deepcopy(tree)]
        for _ in range(1 + self.below(4)):
            self._spoil(found)
        return found[0]

    def _spoil(self, holder: Any) -> None:
        place: Any = 0
        while True:
            inner = holder[place]
            keys = sorted(inner) if isinstance(inner, dict) else range(len(_list(inner)))
            if not keys or self.byte() % 8 == 1:
                break
            holder, place = inner, self.pick(list(keys))
        action = self.below(4)
        if action == 1 and isinstance(holder, dict):
            del holder[place]
        elif action == 2 and isinstance(holder, dict):
            holder[self.text()] = self.value()
        elif action == 3 and isinstance(holder, list):
            holder.append(self.value())
        else:
            holder[place] = self.value()


def as_text(data: bytes) -> str:
    """Decode bytes to a text that may contain what UTF-8 cannot."""
    return data.decode("utf-8", "surrogateescape")


def nested(depth: int) -> Any:
    """Return a list nested this deep."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def as_json(value: Any) -> bytes:
    """Encode the value for a JSON parser; return half a list if it nests too deep to write."""
    try:
        return json.dumps(value).encode()
    except RecursionError:
        return b"["


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
