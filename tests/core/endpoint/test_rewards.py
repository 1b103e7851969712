"""What a completion is worth."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo.cli.evolve import evolve
from prompt_coevo.endpoint.data import LINE
from prompt_coevo.endpoint.rewards import MATCHERS, RewardError, reward_named, scored
from prompt_coevo.errors import SettingsError


@pytest.mark.parametrize(
    ("name", "completion", "answer", "right"),
    [
        ("exact", " The  Cat\n", "the cat", True),
        ("exact", "the cat.", "the cat", False),
        ("contains", "It was Paris, of course", "paris", True),
        ("contains", "comparison", "paris", False),
        ("contains", "anything", "", False),
        ("number", "so 12 and then 1,234.50", "1234.5", True),
        ("number", "x = 7.", "7", True),
        ("number", "-3", "3", False),
        ("number", "none", "3", False),
        ("number", "1e3", "#### 1000", True),
        ("number", "2,3", "23", False),
        ("number", "12,34", "1234", False),
        ("number", "1,2345", "12345", False),
        ("number", "$-1,234,567.5", "-1234567.5", True),
        ("number", "1e999", "2e999", False),
        ("boxed", r"so \boxed{\frac{1}{2}}", r"\frac{1}{2}", True),
        ("boxed", r"\boxed{3} no, \boxed{4.0}", "4", True),
        ("boxed", "4", "4", False),
        ("boxed", r"\boxed{\frac{1}{2}}", r"\frac{3}{2}", False),
        ("boxed", r"\boxed{x^2}", "y^2", False),
        ("boxed", r"\boxed{3/4}", "1/4", False),
        ("boxed", r"\boxed{2,3}", "23", False),
        ("boxed", r"\boxed{(1,2)}", "(5,12)", False),
        ("boxed", r"\boxed{1,234}", "1234", True),
        ("boxed", r"\boxed{ 4.0 }", "4", True),
        ("boxed", r"\boxed{1e999}", "2e999", False),
        ("boxed", r"\boxed{\frac{\sqrt{3}}{2}} holds", r"\frac{\sqrt{3}}{2}", True),
        ("boxed", r"\boxed{\{1, 2\}}", r"\{1, 2\}", True),
        ("boxed", r"\boxed{\left\{1\right.} so {x}", r"\left\{1\right.", True),
        ("boxed", r"\boxed{3}, no, \boxed{\frac{1}", "3", False),
        ("boxed", r"\boxed{3}", r"it is \boxed{\text{three}} or \boxed{3.0}", True),
        ("regex", "answer: B", r"\bB\b", True),
        ("regex", "answer: C", r"\bB\b", False),
    ],
)
def test_matchers(name: str, completion: str, answer: str, right: bool) -> None:
    assert reward_named(name)(completion, answer, {}) == float(right)


def test_the_command_lines_help_names_all_of_them() -> None:
    import inspect

    said = inspect.signature(evolve).parameters["reward"].default.help
    assert said.startswith(", ".join(MATCHERS))


def test_a_function_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_users_rewards.py").write_text(
        "def half(completion, answer, row):\n    return 0.5 * (row['level'] == 2)\nnumber = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert scored(reward_named("a_users_rewards:half"), "", "", {"level": 2, LINE: 1}) == 0.5
    with pytest.raises(SettingsError, match="is no function"):
        reward_named("a_users_rewards:number")
    with pytest.raises(SettingsError, match="cannot be imported: AttributeError"):
        reward_named("a_users_rewards:nothing")
    sys.modules.pop("a_users_rewards")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(SettingsError, match="no reward 'exakt'; known: exact, contains"):
        reward_named("exakt")
    with pytest.raises(SettingsError, match="cannot be imported: ModuleNotFoundError"):
        reward_named("no_such_module:f")


def test_a_function_that_fails_is_told_with_the_line_of_the_data() -> None:
    def broken(completion: str, answer: str, row: Any) -> float:
        raise KeyError("gold")

    with pytest.raises(RewardError, match="line 7 of the data raised KeyError: 'gold'"):
        scored(broken, "", "", {LINE: 7})
    with pytest.raises(RewardError, match="line 7 of the data is nan"):
        scored(lambda *_: math.nan, "", "", {LINE: 7})
