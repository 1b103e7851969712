from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from prompt_coevo import registry
from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.errors import SettingsError
from prompt_coevo.settings import Settings, parse_section
from prompt_coevo.settings.method import load_method
from prompt_coevo.settings.sources import read_yaml


@pytest.mark.parametrize(
    ("value", "others", "found"),
    [
        ("openai/gpt-5", {}, {"model": "openai/gpt-5"}),
        ("self", {}, {"model": "self"}),
        ('{"model": "openai/gpt-5"}', {}, {"model": "openai/gpt-5"}),
        ("openai/gpt-5", {"MAX_CALLS": "7"}, {"model": "openai/gpt-5", "max_calls": 7}),
    ],
)
def test_a_model_in_the_place_of_a_sections_variable(
    monkeypatch: pytest.MonkeyPatch, value: str, others: dict[str, str], found: dict[str, Any]
) -> None:
    monkeypatch.setenv("PROMPT_COEVO_REFLECTION", value)
    for name, one in others.items():
        monkeypatch.setenv(f"PROMPT_COEVO_REFLECTION__{name}", one)
    reflection = Settings().reflection
    assert {name: getattr(reflection, name) for name in found} == found


@pytest.mark.parametrize("value", ["gpt-5", "sk-abcdefgh1234567890abcd"])
def test_a_variable_that_names_no_model_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("PROMPT_COEVO_REFLECTION", value)
    with pytest.raises(SettingsError, match="PROMPT_COEVO_REFLECTION cannot be read") as refused:
        Settings()
    assert value not in str(refused.value)


def test_the_default_method_is_the_stream_whose_questions_are_hard_until_solved_bare() -> None:
    settings = Settings()
    assert settings.algorithms == ("stream",)
    assert (settings.stream.bare_hardness, settings.stream.tau) == (True, 0.2)


def test_the_defaults_of_p2o_are_the_papers_values() -> None:
    p2o = Settings().p2o
    assert (p2o.hardness, p2o.overspend, p2o.front_fill) == ("literal", "literal", False)
    assert (p2o.beam_width, p2o.minibatch_size, p2o.dev_size) == (16, 3, 300)
    assert (p2o.minibatch_temperature, p2o.dev_temperature) == (0.6, 0.0)
    assert (p2o.tau, p2o.search_budget, p2o.solved_at) == (0.2, 11_000, 1.0)
    assert p2o.group_templates == "diverse"
    assert Settings().context_distillation


def test_the_defaults_of_inspo_are_the_papers_values() -> None:
    inspo = Settings().inspo
    assert (inspo.population_size, inspo.parents, inspo.selection_temperature) == (7, 1, 0.2)
    assert (inspo.prune_every, inspo.evolve_every, inspo.evolve_until) == (5, 15, 150)
    assert (inspo.window, inspo.verify_size, inspo.failures_per_reflection) == (5, 200, 4)
    assert (inspo.candidates_per_call, inspo.rounds, inspo.proposer) == (6, 5, "reflection")
    assert (inspo.evolution, inspo.reflection, inspo.verify) == ("online", "blocking", "blocking")


def test_the_sources_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "coevo.yaml"
    file.write_text("seed: 2\np2o:\n  tau: 0.02\n  beam_width: 2\n")
    monkeypatch.setenv("PROMPT_COEVO_P2O__BEAM_WIDTH", "3")
    monkeypatch.setenv("PROMPT_COEVO_P2O__DEV_SIZE", "33")
    settings = Settings(preset="demo-p2o", config_file=file, p2o={"dev_size": 44})
    assert settings.p2o.dev_size == 44  # constructor
    assert settings.p2o.beam_width == 3  # environment
    assert (settings.seed, settings.p2o.tau) == (2, 0.02)  # file
    assert settings.p2o.search_budget == 1200  # preset
    assert settings.p2o.max_barren_waves == P2OSettings().max_barren_waves  # default


def test_a_section_given_as_an_object_merges_by_what_was_set() -> None:
    settings = Settings(preset="demo-p2o", p2o=P2OSettings(tau=0.3))
    assert (settings.p2o.tau, settings.p2o.search_budget) == (0.3, 1200)


def test_toml_and_yaml_and_the_environment_can_name_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.toml").write_text("seed = 7\n[stream]\ntau = 0.5\n")
    (tmp_path / "b.yml").write_text("preset: demo-p2o\n")
    assert Settings(config_file=tmp_path / "a.toml").stream.tau == 0.5
    monkeypatch.setenv("PROMPT_COEVO_CONFIG_FILE", str(tmp_path / "b.yml"))
    assert Settings().p2o.search_budget == 1200


@pytest.mark.parametrize(
    ("given", "means"), [(True, "blocking"), (False, "off"), ("false", "off"), ("off", "off")]
)
def test_inspos_verification_is_also_a_switch(given: object, means: str) -> None:
    """YAML reads `off` as false."""
    assert Settings(algorithms="inspo", inspo={"verify": given}).inspo.verify == means


def test_algorithms_can_be_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings(algorithms="p2o").algorithms == ("p2o",)
    monkeypatch.setenv("PROMPT_COEVO_ALGORITHMS", "p2o, inspo")
    assert Settings().algorithms == ("p2o", "inspo")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"p2o": {"tau": 0}}, "p2o.tau must be greater than 0, else no question can be hard"),
        ({"stream": {"tau": -1}}, "stream.tau must be greater than 0"),
        ({"stream": {"calls_per_hard": 0}}, "stream.calls_per_hard must be greater than 0"),
        ({"stream": {"bare_members": 0}}, "stream.bare_members: input should be greater"),
        ({"stream": {"beam_width": 3}}, "unknown setting stream.beam_width; did you mean p2o.beam"),
        ({"stream": {"likeness": "wrods"}}, "there is no such likeness"),
        (
            {"p2o": {"tau": 0.1}},
            'settings under p2o have no effect without "p2o" in algorithms; set stream.tau, or name "p2o"',
        ),
        ({"preset": "p2o", "stream": {"tau": 0.1}}, "settings under stream have no effect without"),
        ({"p2o": {"tau": float("nan")}}, "p2o.tau: input should be a finite number"),
        ({"p2o": {"taus": 1}}, "unknown setting p2o.taus; did you mean p2o.tau?"),
        ({"sed": 1}, "unknown setting sed; did you mean seed?"),
        ({"xyz": 1}, "unknown setting xyz; known: algorithms, "),
        ({"seed": "x"}, "seed: input should be a valid integer"),
        ({"preset": "nope"}, "there is no preset 'nope'; known presets: both, demo-inspo"),
        ({"p2o": {"search_every": 0}}, "p2o.search_every must be"),
        ({"p2o": {"min_hard": 1}}, "p2o.min_hard"),
        ({"resume": "exact"}, "resume: input should be 'strict' or 'force'"),
        ({"context_distillation": False, "distill_forward": True}, "distill_forward = True has no"),
        (
            {"placement": {"template_layout": "{{question}}"}},
            "placeholder {{template}} exactly once",
        ),
        ({"placement": {"template_layout": "{{template}}"}}, "{{question}} exactly once"),
        ({"reflection": {"model": "self", "function": len}}, "exclude each other"),
        ({"reflection": {"function": "os:nope"}}, "reflection.function"),
        (
            {"reflection": {"function": len, "timeout_s": 3}},
            "reflection.timeout_s has no effect with a reflection.function; leave it out",
        ),
        (
            {"reflection": {"model": "self", "api_base": "x"}},
            'reflection.api_base has no effect with reflection.model = "self"',
        ),
        (
            {"inspo": {"parents": 7}},
            "inspo.parents = 7 must be smaller than inspo.population_size = 7",
        ),
        ({"inspo": {"prune_every": 0}}, "inspo.prune_every: input should be greater than"),
        ({"inspo": {"evolve_every": 0}}, "inspo.evolve_every: input should be greater than"),
        ({"inspo": {"selection_temperature": 0}}, "inspo.selection_temperature: input should be"),
        (
            {"inspo": {"instruction": "a", "initial_population": ["b"]}},
            "inspo.instruction and inspo.initial_population exclude each other: set one",
        ),
        (
            {"inspo": {"initial_population": ["a", "b", "c"], "population_size": 2}},
            "inspo.initial_population holds 3 instructions, more than inspo.population_size = 2",
        ),
        (
            {"inspo": {"overlap_steps": 2}},
            'inspo.overlap_steps has no effect unless inspo.reflection = "overlapped"',
        ),
        (
            {"inspo": {"reflection": "overlapped", "evolution": "before"}},
            'inspo.reflection = "overlapped" has no effect unless inspo.evolution = "online"',
        ),
        (
            {"inspo": {"reflection": "overlapped", "overlap_steps": 15}},
            "inspo.overlap_steps = 15 must be smaller than inspo.evolve_every = 15",
        ),
        (
            {"inspo": {"reflection": "overlapped", "evolve_every": 1}},
            "inspo.overlap_steps = 1 must be smaller than inspo.evolve_every = 1",
        ),
        (
            {"inspo": {"verify": "sometimes"}},
            "inspo.verify: input should be 'blocking' or 'off'",
        ),
        (
            {"algorithms": "inspo", "inspo": {"evolve_every": 20, "evolve_until": 20}},
            "there is never an evolution; raise evolve_until",
        ),
        (
            {"algorithms": "inspo", "inspo": {"initial_population": ["a"], "paraphrase": True}},
            "inspo.paraphrase has no effect with inspo.initial_population",
        ),
        (
            {"algorithms": "inspo", "inspo": {"prune": False, "prune_unsampled": True}},
            "inspo.prune_unsampled has no effect with inspo.prune = false",
        ),
        (
            {
                "algorithms": "inspo",
                "inspo": {"reflection": "overlapped"},
                "reflection": {"model": "self"},
            },
            'inspo.reflection = "overlapped" cannot go with reflection.model = "self"',
        ),
        (
            {
                "algorithms": "inspo",
                "inspo": {"reflection": "overlapped"},
                "reflection": {"backend": "self", "model": "org/model"},
            },
            'inspo.reflection = "overlapped" cannot go with reflection.model = "self"',
        ),
        (
            {"algorithms": "p2o", "reflection": {"function": len, "total_timeout_s": 9}},
            "reflection.total_timeout_s has no effect with a reflection.function that training waits",
        ),
        (
            {"reflection": {"function": len, "max_total_tokens": 9}},
            "reflection.max_total_tokens has no effect with a reflection.function",
        ),
        ({"inspo": {"window": 3}}, 'settings under inspo have no effect without "inspo"'),
        (
            {"algorithms": ("inspo",), "p2o": {"tau": 0.1}},
            'settings under p2o have no effect without "p2o"',
        ),
        ({"reflection": 3}, "reflection is a section: give it names and values (got 3)"),
        ({"reflection": {"max_usd": float("inf")}}, "reflection.max_usd"),
        ({"p2o": {"solved_at": float("inf")}}, "p2o.solved_at"),
        ({"config_file": "/does/not/exist.yaml"}, "cannot be read: No such file"),
    ],
)
def test_bad_values_give_one_sentence(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)) as raised:
        Settings(**values)
    assert "\n" not in str(raised.value)


def test_several_problems_are_named_together() -> None:
    with pytest.raises(
        SettingsError, match=r"^2 mistakes .*\(1\) seed: .*; \(2\) p2o.tau"
    ) as raised:
        Settings(seed="x", algorithms="p2o", p2o={"tau": 0})
    assert [one.split()[0] for one in raised.value.problems] == ["seed:", "p2o.tau"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("PROMPT_COEVO_SEDE", "PROMPT_COEVO_SEDE sets nothing; did you mean seed?"),
        ("PROMPT_COEVO_SEED__FIRST", "PROMPT_COEVO_SEED__FIRST sets nothing; did you mean seed?"),
        ("PROMPT_COEVO_SEED__", "PROMPT_COEVO_SEED__ sets nothing; did you mean seed?"),
        ("PROMPT_COEVO_P2O__TAX", "unknown setting p2o.tax"),
        ("PROMPT_COEVO_P2O__TAU", "p2o.tau: input should be a valid number"),
    ],
)
def test_a_bad_environment_variable(
    name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "x")
    with pytest.raises(SettingsError, match=re.escape(message)):
        Settings()


def test_a_variable_that_another_one_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMPT_COEVO_SEED", "1")
    monkeypatch.setenv("prompt_coevo_seed", "2")
    with pytest.raises(SettingsError, match="prompt_coevo_seed stands there twice; leave one out"):
        Settings()


def test_a_section_without_a_value_would_hide_the_values_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PROMPT_COEVO_STREAM", "null")
    monkeypatch.setenv("PROMPT_COEVO_STREAM__TAU", "0.1")
    with pytest.raises(SettingsError, match="PROMPT_COEVO_STREAM sets nothing; leave it out"):
        Settings()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "seed = [", "cannot be parsed"),
        ("a.yaml", "a: [", "cannot be parsed"),
        ("a.yaml", "- 1\n- 2", "must hold names and values"),
        ("a.yaml", "2: ", "has a name that is no text: 2"),
        ("a.yaml", "[[seed, 3]]", "must hold names and values"),
        ("a.yaml", "false", "must hold names and values"),
        ("a.yaml", "0", "must hold names and values"),
        (
            "a.yaml",
            "seed: 1\np2o:\n  tau: 0.1\nseed: 2",
            "seed stands there twice, again in line 4",
        ),
        ("a.yaml", "p2o: {tau: 0.1, tau: 0.2}", "tau stands there twice, again in line 1"),
        ("a.toml", "seed = 1\nseed = 2", "cannot be parsed"),
        ("a.yaml", "config_file: b.yaml", "config_file has no effect in a settings file"),
        ("a.yaml", "p2o: {tua: 1}", "unknown setting p2o.tua; did you mean p2o.tau?"),
    ],
)
def test_a_bad_file(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SettingsError, match=re.escape(message)) as raised:
        Settings(config_file=tmp_path / name)
    assert "\n" not in str(raised.value)


def test_a_folder_and_a_pipe_in_the_place_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        Settings(config_file=tmp_path)
    read, write = os.pipe()
    os.write(write, b"seed: 4")
    os.close(write)
    assert Settings(config_file=f"/dev/fd/{read}").seed == 4
    os.close(read)


def test_yaml_may_merge_one_section_into_others() -> None:
    """A name that a merge brings in is not a duplicate."""
    text = "a: &all {tau: 0.1, proof: false}\nb:\n  <<: *all\n  tau: 0.3\n"
    assert read_yaml(text)["b"] == {"tau": 0.3, "proof": False}


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# nothing yet\n")
    assert Settings(config_file=tmp_path / "a.yaml").seed == 0


def test_a_key_is_in_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(reflection={"api_key": "sk-secret"})
    assert "sk-secret" not in repr(settings)
    assert "sk-secret" not in settings.model_dump_json(exclude={"reflection": {"function"}})
    monkeypatch.setenv("PROMPT_COEVO_REFLECTION__API_KEY", "sk-secret")
    with pytest.raises(SettingsError) as raised:
        Settings(reflection={"timeout_s": -1})
    assert "sk-secret" not in str(raised.value)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid")
    width: int = 3


def test_a_plugins_own_section() -> None:
    section = parse_section(_Section, "plugins.mine", {"width": 5})
    assert section == _Section(width=5)
    with pytest.raises(SettingsError, match=re.escape("plugins.mine.width: input should be")):
        parse_section(_Section, "plugins.mine", {"width": "x"})
    with pytest.raises(SettingsError, match=re.escape("unknown setting plugins.mine.depth")):
        parse_section(_Section, "plugins.mine", {"depth": 1})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "seed: 2001-99-99"),
        ("a.yaml", "seed: !!int ''"),
        ("a.yaml", "seed: " + "[" * 2000),
        ("a.toml", "seed = " + "[" * 2000),
    ],
)
def test_a_file_that_no_parser_can_take(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(SettingsError, match=f"{name} cannot be parsed: "):
        Settings(config_file=path)


@pytest.mark.parametrize("path", ["a\0b", ["a", "b"], {"a": 1}])
def test_a_path_that_is_none(path: Any) -> None:
    with pytest.raises(SettingsError, match=re.escape("config_file") + "|cannot be parsed"):
        Settings(config_file=path)


def test_a_variable_that_nests_too_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMPT_COEVO_ROW_COLUMNS", "[" * 3000)
    with pytest.raises(SettingsError, match="too deep to be read"):
        Settings()


def test_every_built_in_method_has_a_field_of_its_section() -> None:
    built_in = [name for name in registry.names("methods") if registry.is_built_in("methods", name)]
    for name in built_in:
        assert Settings.model_fields[name].annotation is load_method(name).section
        assert Settings().place(load_method(name)) == name
