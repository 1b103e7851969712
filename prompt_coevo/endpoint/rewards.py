"""What a completion is worth: built-in matchers, or a function of the user's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, TypeAlias

from prompt_coevo.endpoint.data import LINE
from prompt_coevo.errors import CoevoError, SettingsError

Reward: TypeAlias = Callable[[str, str, Mapping[str, Any]], float]
"""Of a completion, the right answer and the whole row."""

_NUMBER: Final = re.compile(
    r"[-+]?(?:(?:\d{1,3}(?:,\d{3})+(?!,?\d)|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
)
"""Commas stand between thousands only: `2,3` is two numbers."""
_BOX: Final = re.compile(r"\\boxed\s*\{")
_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)
"""A brace, or what a backslash escapes, which is none."""


class RewardError(CoevoError, RuntimeError):
    """The user's reward function cannot be used."""


def exact(completion: str, answer: str) -> bool:
    """The whole completion is the answer, but for case and blanks."""
    return _plain(completion) == _plain(answer)


def contains(completion: str, answer: str) -> bool:
    """The answer stands somewhere in the completion, as whole words, but for case and blanks."""
    wanted = _plain(answer)
    return bool(wanted) and bool(
        re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", _plain(completion))
    )


def number(completion: str, answer: str) -> bool:
    """The last number in the completion is the last one in the answer."""
    said, wanted = _last_number(completion), _last_number(answer)
    return said is not None and wanted is not None and _same(said, wanted)


def boxed(completion: str, answer: str) -> bool:
    r"""The last `\boxed{...}` of the completion is the answer, or that of the answer if it has one.

    As texts but for case and blanks, or as numbers if both are one number and nothing else. A box
    that is not closed is wrong, as of a completion that was cut off.
    """
    said = _last_box(completion)
    if said is None:
        return False
    wanted = _last_box(answer) if _BOX.search(answer) else answer
    if wanted is None:
        return False
    numbers = all(_NUMBER.fullmatch(text.strip()) for text in (said, wanted))
    return exact(said, wanted) or (numbers and _same(_value(said), _value(wanted)))


def regex(completion: str, answer: str) -> bool:
    """The answer is a regular expression that is found in the completion."""
    return re.search(answer, completion) is not None


MATCHERS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "exact": exact,
    "contains": contains,
    "number": number,
    "boxed": boxed,
    "regex": regex,
}


def reward_named(name: str) -> Reward:
    """A matcher by its name (1 or 0), or a function `module:function` of completion, answer and row.

    Raises SettingsError for a name that is neither.
    """
    if name in MATCHERS:
        matcher = MATCHERS[name]
        return lambda completion, answer, row: float(matcher(completion, answer))
    module, colon, attribute = name.partition(":")
    if not colon:
        raise SettingsError(
            f"there is no reward {name!r}; known: {', '.join(MATCHERS)}, or a place, module:function"
        )
    try:
        function = getattr(import_module(module), attribute)
    except Exception as error:  # a stranger's module may raise anything
        raise SettingsError(
            f"the reward {name!r} cannot be imported: {type(error).__name__}: {error}"
        ) from None
    if not callable(function):
        raise SettingsError(f"the reward {name!r} is no function")
    return function  # type: ignore[no-any-return]


def scored(reward: Reward, completion: str, answer: str, row: Mapping[str, Any]) -> float:
    """The reward as a finite number. Raises RewardError, which names the line of the row."""
    given = {name: value for name, value in row.items() if name != LINE}
    try:
        value = float(reward(completion, answer, given))
    except Exception as error:  # a stranger's function may raise anything
        raise RewardError(
            f"the reward of line {row[LINE]} of the data raised {type(error).__name__}: {error}; mend it "
            "and run the same command again, which goes on where this one stopped"
        ) from None
    if not math.isfinite(value):
        raise RewardError(
            f"the reward of line {row[LINE]} of the data is {value}; it must be a finite number"
        )
    return value


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _last_number(text: str) -> float | None:
    found = _NUMBER.findall(text)
    return _value(found[-1]) if found else None


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _same(one: float, other: float) -> bool:
    """Numbers too large for a float are not compared: all of them would be infinite."""
    return math.isfinite(one) and math.isclose(one, other, rel_tol=1e-9)


def _last_box(text: str) -> str | None:
    """What stands in the last box, None if there is none or it is not closed."""
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return None
    start, depth = boxes[-1].end(), 1
    for brace in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return text[start : brace.start()]
    return None
