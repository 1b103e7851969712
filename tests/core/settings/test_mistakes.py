"""Check that everything wrong with the settings is reported at once, whichever source it is in."""

from __future__ import annotations

import re
import typing
from pathlib import Path
from typing import Any, Self

import pytest
from pydantic import BaseModel, model_validator

from prompt_coevo.algorithms.all_settings import section_mistakes
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import SettingsError
from prompt_coevo.settings import Settings, parse_section, setting_fields
from prompt_coevo.settings.section import Section


def problems(**values: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as raised:
        Settings(**values)
    assert "\n" not in str(raised.value)
    return raised.value.problems


def test_no_source_hides_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "coevo.yaml"
    file.write_text("p2o: {tua: 1, beam_width: 0}\n")
    monkeypatch.setenv("PROMPT_COEVO_SEDE", "1")
    monkeypatch.setenv("PROMPT_COEVO_ROW_COLUMNS", "[0.1")
    monkeypatch.setenv("PROMPT_COEVO_GATES__LEAK_NGRAM", "-1")
    found = problems(preset="p2", config_file=file, seed="x", reflection={"modle": "a"})
    assert [one.partition(" (got")[0].partition(": Expecting")[0] for one in found] == [
        "the environment variable PROMPT_COEVO_SEDE sets nothing; did you mean seed?",
        "the environment variable PROMPT_COEVO_ROW_COLUMNS cannot be read",
        "there is no preset 'p2'; did you mean p2o?",
        "seed: input should be a valid integer, unable to parse string as an integer",
        "unknown setting reflection.modle; did you mean reflection.model?",
        "gates.leak_ngram: input should be greater than or equal to 2",
        "p2o.beam_width: input should be greater than or equal to 1",
        f"unknown setting p2o.tua; did you mean p2o.tau? (in the file {file})",
    ]
    places = [re.findall(r" \(in (.*)\)$", one) for one in found]
    assert places == [
        [],
        [],
        [],
        [],
        [],
        ["the environment"],
        [f"the file {file}"],
        [f"the file {file}"],
    ]


def test_what_is_good_in_a_source_counts_beside_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The contradiction shows only if the second variable is read although the first is invalid."""
    monkeypatch.setenv("PROMPT_COEVO_SINKS", "[")
    monkeypatch.setenv("PROMPT_COEVO_STREAM__CALLS_PER_HARD", "0")
    found = problems()
    assert "PROMPT_COEVO_SINKS cannot be read" in found[0]
    assert "stream.calls_per_hard must be greater than 0" in found[1]


def test_a_file_that_cannot_be_read_does_not_hide_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("seed = [")
    found = problems(config_file=tmp_path / "a.toml", preset="nope", sed=1)
    assert ["cannot be parsed" in found[0], "no preset 'nope'" in found[1]] == [True, True]
    assert found[2] == "unknown setting sed; did you mean seed?"


def test_contradictions_are_told_beside_wrong_values() -> None:
    found = problems(
        seed="x",
        stream={"tau": 7.0},
        inspo={"parents": 9},
        reflection={"model": "self", "function": len},
        sinks=["jurnal"],
        gates={"active": ["txt"]},
    )
    assert len(found) == 7
    for part in (
        "seed: input",
        "stream.tau = 7 is so far above",
        "inspo.parents = 9 must be smaller",
        "reflection.model and reflection.function exclude each other",
        "settings under inspo have no effect",
        "sinks = 'jurnal': there is no such sink; did you mean journal?",
        "gates.active = 'txt': there is no such gate; did you mean text?",
    ):
        assert any(part in one for one in found), part


def test_a_contradiction_that_may_come_from_a_wrong_value_is_not_claimed() -> None:
    """With the intended share, `tau` may well be below it."""
    found = problems(stream={"solved_at": "none", "tau": 7.0})
    assert len(found) == 1
    assert found[0].startswith("stream.solved_at: input should be a valid number")
    assert len(problems(reflection={"backend": "litellm", "modle": "a/b"})) == 1


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"tau": 1}, "unknown setting tau; did you mean p2o.tau or stream.tau?"),
        ({"p2O": {"tau": 1}}, "unknown setting p2O; did you mean p2o?"),
        ({"p2o": {"Tau": 1}}, "unknown setting p2o.Tau; did you mean p2o.tau?"),
        ({"p2o": {"seed": 1}}, "unknown setting p2o.seed; did you mean seed?"),
        (
            {"p2o": {"max_tokens": 1}},
            "unknown setting p2o.max_tokens; did you mean reflection.max_tokens or hints.max_tokens?",
        ),
        (
            {"solved_at": 1},
            "unknown setting solved_at; did you mean inspo.solved_at or p2o.solved_at or "
            "stream.solved_at?",
        ),
        ({"api-base": "x"}, "unknown setting api-base; did you mean reflection.api_base?"),
        ({"serch_budget": 1}, "unknown setting serch_budget; did you mean p2o.search_budget?"),
        (
            {"p2o.tau": 1},
            "unknown setting p2o.tau; a section holds its settings: p2o: {tau: ...}",
        ),
        ({"algorithms": "P2O"}, "algorithms = 'P2O': there is no such method; did you mean p2o?"),
        ({"preset": "p2"}, "there is no preset 'p2'; did you mean p2o?"),
        (
            {"reflection": {"backend": "litelm"}},
            "reflection.backend = 'litelm': there is no such model; did you mean litellm?",
        ),
    ],
)
def test_the_name_that_was_probably_meant(values: dict[str, Any], sentence: str) -> None:
    assert problems(**values) == (sentence,)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"algorithms": "p2o", "p2o": {"tau": 7}},
            "p2o.tau = 7 is so far above p2o.solved_at = 1 that every question would be hard for ever; "
            "set a share of it, for example 0.2",
        ),
        ({"p2o": {"beam_width": True}}, "p2o.beam_width must be a number, not true (got True)"),
        ({"seed": False}, "seed must be a number, not false (got False)"),
        (
            {"p2o": {"search_every": "often"}},
            "p2o.search_every: input should be 'epoch' or a valid integer, unable to parse string as an "
            "integer (got 'often')",
        ),
        (
            {"reflection": {"temperature": 70}},
            "reflection.temperature: input should be less than or equal to 10 (got 70)",
        ),
    ],
)
def test_values_outside_of_their_meaning(values: dict[str, Any], sentence: str) -> None:
    assert problems(**values) == (sentence,)


def numeric_settings() -> list[str]:
    return [
        name
        for name, field in setting_fields()
        if {int, float} & {field.annotation, *typing.get_args(field.annotation)}
    ]


ANY_NUMBER = ("seed", "success.low", "success.high")


@pytest.mark.parametrize("name", numeric_settings())
@pytest.mark.parametrize("value", [-1, True, "nan"])
def test_every_number_has_bounds(name: str, value: Any) -> None:
    """Except for the seed and the ends of a scale, no number may be negative, and none may be a bool or
    NaN."""
    if value == -1 and name in ANY_NUMBER:
        Settings(seed=-1, success={"low": -2, "high": -1})
        Settings(success={"low": -1})
        return
    section, _, last = name.rpartition(".")
    values = {section: {last: value}} if section else {last: value}
    assert any(one.startswith(name) for one in problems(**values))


class _Width(Section):
    width: int = 3
    height: int = 3

    def problems(self) -> typing.Iterator[str]:
        if self.width < self.height:
            yield "plugins.mine.width must not be below height"


def test_a_plugins_own_section_is_told_as_a_whole() -> None:
    with pytest.raises(SettingsError) as raised:
        parse_section(_Width, "plugins.mine", {"width": 1, "zzz": 2, "hight": "x"})
    assert raised.value.problems == (
        "unknown setting plugins.mine.zzz; known: height, width",
        "unknown setting plugins.mine.hight; did you mean plugins.mine.height?",
    )  # the message about `height` may come from the unknown name
    with pytest.raises(SettingsError) as raised:
        parse_section(_Width, "plugins.mine", {"width": 1, "zzz": 2})
    assert len(raised.value.problems) == 2


def test_what_stands_at_no_setting_is_told_once() -> None:
    class Section(BaseModel):
        a: int = 1

        @model_validator(mode="after")
        def _small(self) -> Self:
            raise ValueError("the sum is too large")

    assert section_mistakes(Section, "plugins.b", {"a": 5}) == ["plugins.b the sum is too large"]


def test_what_only_the_engine_sees_is_told_together(tmp_path: Path) -> None:
    settings = Settings(
        reflection={"function": str},
        algorithms="p2o",
        p2o={"proposer": "nobody"},
        sinks=["os:nope"],
    )
    with pytest.raises(SettingsError) as raised:
        Coevolution.check(settings)
    told = str(raised.value)
    for part in (
        "'nobody': there is no such proposer",
        "sinks = 'os:nope' cannot be imported",
    ):
        assert part in told, part


@pytest.mark.parametrize("values", [{}, {"tau": 0.1}])
def test_settings_that_no_method_of_the_run_reads_are_told(values: dict[str, Any]) -> None:
    found = problems(algorithms="p2o", plugins={"nobody": values, "p2o": values, "hints": values})
    assert list(found) == [
        "plugins.nobody sets nothing: no method of this run has that name; methods: p2o",
        "plugins.p2o sets nothing: the settings of the method 'p2o' stand under p2o",
        "plugins.hints sets nothing: the settings of the method 'hints' stand under hints",
    ]
