"""Check settings given on a trainer's command line."""

from __future__ import annotations

from typing import Any

import pytest

from prompt_coevo.adapters.common.flags import Flags, help_text
from prompt_coevo.errors import SettingsError
from prompt_coevo.settings import method_choices


def test_our_flags_are_taken_out_wherever_they_stand() -> None:
    line = "--a.b 1 2 --coevo.method p2o --coevo.p2o.tau=0.1 --c --coevo.seed 3 --d x"
    flags = Flags.from_arguments(line.split())
    assert flags.others == ["--a.b", "1", "2", "--c", "--d", "x"]
    assert flags.settings == {"algorithms": ["p2o"], "p2o": {"tau": 0.1}, "seed": 3}


def test_a_line_without_our_flags_is_left_alone() -> None:
    flags = Flags.from_arguments(["--a", "--b=1"])
    assert (flags.others, flags.settings) == (["--a", "--b=1"], None)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("true", True),
        ("0.5", 0.5),
        ("3", 3),
        ("a: b", "a: b"),
        ("[x]", "[x]"),
        ("{", "{"),
    ],
)
def test_values(text: str, value: Any) -> None:
    flags = Flags.from_arguments(["--coevo.inspo.instruction", text])
    assert flags.settings == {"inspo": {"instruction": value}}


def test_several_values_make_a_list() -> None:
    flags = Flags.from_arguments(["--coevo.plugins.mine.range", "0.1", "5"])
    assert flags.settings == {"plugins": {"mine": {"range": [0.1, 5]}}}


def test_a_list_of_one() -> None:
    flags = Flags.from_arguments(["--coevo.gates.required_tags", "<answer>"])
    assert flags.settings == {"gates": {"required_tags": ["<answer>"]}}


def test_the_last_of_two_flags_wins() -> None:
    flags = Flags.from_arguments(["--coevo.seed", "1", "--coevo.seed=2"])
    assert flags.settings == {"seed": 2}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (
            ["--coevo.method", "p3o"],
            "--coevo.method must be one of hints, inspo, p2o, stream, both, but is 'p3o'",
        ),
        (["--coevo.seed"], "--coevo.seed needs a value"),
        (["--coevo.p2o", "5", "--coevo.p2o.tau", "1"], "because --coevo.p2o has a value"),
        (
            ["--coevo.reflection.api_key", "sk-1"],
            "would be printed with the command's other arguments",
        ),
    ],
)
def test_refused_flags(arguments: list[str], part: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Flags.from_arguments(arguments)
    assert part in str(caught.value)
    assert "sk-1" not in str(caught.value)


def test_all_that_is_wrong_with_flags_is_told_at_once() -> None:
    line = "--coevo.method p2 --coevo.seed --coevo.tau 0.1 --coevo.p2o.beam_width x"
    with pytest.raises(SettingsError) as caught:
        Flags.from_arguments(line.split())
    assert [problem.partition(" (got")[0] for problem in caught.value.problems] == [
        "--coevo.method must be one of hints, inspo, p2o, stream, both, but is 'p2'; did you mean p2o?",
        "--coevo.seed needs a value: --coevo.seed VALUE",
        "p2o.beam_width: input should be a valid integer, unable to parse string as an integer",
        "unknown setting tau; did you mean p2o.tau or stream.tau?",
    ]


def test_a_section_has_no_value_behind_its_settings_either() -> None:
    with pytest.raises(SettingsError, match=r"--coevo\.p2o is a section, which has no value"):
        Flags.from_arguments(["--coevo.p2o.tau", "1", "--coevo.p2o", "5"])


def test_the_help_lists_every_setting_but_the_key() -> None:
    text = help_text()
    assert "--coevo.method {hints,inspo,p2o,stream,both}" in text
    assert "--coevo.p2o.tau\n" in text
    assert "api_key" not in text


def test_both_is_inspo_and_the_default_method() -> None:
    assert method_choices()["both"] == ["inspo", "stream"]
    assert Flags.from_arguments(["--coevo.method", "both"]).settings == {
        "algorithms": ["inspo", "stream"]
    }


@pytest.mark.parametrize("value", ["2001-99-99", "!!int x", "!!timestamp x", "[" * 2000])
def test_a_value_that_yaml_cannot_make_is_a_text(value: str) -> None:
    assert Flags.from_arguments([f"--coevo.seed={value}"]).settings == {"seed": value}
