"""The command line and the pure parts of the adapter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prompt_coevo.adapters.openrlhf import checks
from prompt_coevo.adapters.openrlhf.checkpoint import Progress
from prompt_coevo.adapters.openrlhf.checks import check_arguments, check_version
from prompt_coevo.adapters.openrlhf.distil import with_prompt
from prompt_coevo.adapters.openrlhf.flags import Flags, help_text
from prompt_coevo.adapters.openrlhf.sent_settings import received, sent
from prompt_coevo.errors import HostError, SettingsError
from prompt_coevo.settings import Settings


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
    flags = Flags.from_arguments(["--coevo.distill_band", "0.1", "5"])
    assert flags.settings == {"distill_band": [0.1, 5]}


def test_a_list_of_one() -> None:
    flags = Flags.from_arguments(["--coevo.gates.required_tags", "<answer>"])
    assert flags.settings == {"gates": {"required_tags": ["<answer>"]}}


def test_the_last_of_two_flags_wins() -> None:
    flags = Flags.from_arguments(["--coevo.seed", "1", "--coevo.seed=2"])
    assert flags.settings == {"seed": 2}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--coevo.method", "p3o"], "--coevo.method must be one of inspo, p2o, both, but is 'p3o'"),
        (["--coevo.seed"], "--coevo.seed needs a value"),
        (["--coevo.p2o", "5", "--coevo.p2o.tau", "1"], "because --coevo.p2o has a value"),
        (["--coevo.reflection.api_key", "sk-1"], "would be printed with OpenRLHF's arguments"),
    ],
)
def test_refused_flags(arguments: list[str], part: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Flags.from_arguments(arguments)
    assert part in str(caught.value)
    assert "sk-1" not in str(caught.value)


def test_the_help_lists_every_setting_but_the_key() -> None:
    text = help_text()
    assert "--coevo.method {inspo,p2o,both}" in text
    assert "--coevo.p2o.tau\n" in text
    assert "api_key" not in text


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--coevo.method", "p3o"], "--coevo.method must be one of"),
        (["--coevo.p2o.tua", "1"], "unknown setting p2o.tua; did you mean p2o.tau?"),
        (["--coevo.method", "p2o"], "no reflection model is set"),
    ],
)
def test_a_refusal_is_one_sentence(tmp_path: Path, arguments: list[str], part: str) -> None:
    command = [sys.executable, "-P", "-m", "prompt_coevo.adapters.openrlhf", *arguments]
    run = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=1800, check=False
    )
    assert run.returncode == 1
    assert run.stderr.startswith("error: ")
    assert part in run.stderr
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("found", "fits"), [("0.11.2", True), ("0.11.1", False), ("0.12.0", False)]
)
def test_versions(monkeypatch: pytest.MonkeyPatch, found: str, fits: bool) -> None:
    monkeypatch.setattr(checks, "version", lambda name: found)
    if fits:
        check_version()
        return
    with pytest.raises(HostError, match="is not supported.*install openrlhf>=0.11.2,<0.12"):
        check_version()


def arguments(**changes: Any) -> SimpleNamespace:
    values: dict[str, Any] = {
        "rollout.n_samples_per_prompt": 4,
        "reward.remote_url": ["reward.py"],
        "train.agent_func_path": None,
        "train.partial_rollout_enable": False,
        "vllm.num_engines": 1,
        "ckpt.disable_ds": False,
        "ckpt.save_steps": -1,
        "data.max_images_per_prompt": 0,
        "algo.advantage": SimpleNamespace(is_correction_level="off"),
        **changes,
    }
    sections: dict[str, SimpleNamespace] = {}
    for name, value in values.items():
        section, last = name.split(".")
        setattr(sections.setdefault(section, SimpleNamespace()), last, value)
    return SimpleNamespace(**sections)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"rollout.n_samples_per_prompt": 1}, "makes no groups"),
        ({"reward.remote_url": None}, "too late to judge prompts by"),
        ({"vllm.num_engines": 0}, "set --vllm.num_engines"),
        ({"ckpt.disable_ds": True, "ckpt.save_steps": 2}, "that the state travels in"),
        ({"train.partial_rollout_enable": True}, "in the middle of a rollout"),
        ({"data.max_images_per_prompt": 1}, "vision-language training is not supported"),
    ],
)
def test_refused_arguments(changes: dict[str, Any], part: str) -> None:
    with pytest.raises(HostError) as caught:
        check_arguments(arguments(**changes), Settings(algorithms=()))
    assert part in str(caught.value)


def test_modes_that_need_the_samplers_log_probs() -> None:
    settings = Settings(distill_ratio="band")
    with pytest.raises(HostError, match="set --algo.advantage.is_correction_level"):
        check_arguments(arguments(), settings)


def test_what_is_served() -> None:
    check_arguments(arguments(), Settings(algorithms=()))
    check_arguments(arguments(**{"ckpt.disable_ds": True}), Settings(algorithms=()))


def test_actors_get_what_the_environment_and_files_say_here_but_no_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "coevo.toml").write_text("[p2o]\ntau = 0.25\n")
    monkeypatch.setenv("PROMPT_COEVO_SEED", "7")
    monkeypatch.setenv("PROMPT_COEVO_REFLECTION__API_KEY", "sk-1")
    values = {
        "preset": "demo-p2o",
        "config_file": str(tmp_path / "coevo.toml"),
        "algorithms": ["p2o"],
    }
    settings = Settings(**values)
    monkeypatch.delenv("PROMPT_COEVO_SEED")
    monkeypatch.delenv("PROMPT_COEVO_REFLECTION__API_KEY")
    (tmp_path / "coevo.toml").unlink()
    values = sent(settings)
    assert "sk-1" not in json.dumps(values)
    monkeypatch.setenv("PROMPT_COEVO_SEED", "8")
    monkeypatch.setenv("PROMPT_COEVO_REFLECTION__API_KEY", "sk-2")
    there = received(values)
    assert there.reflection.api_key is not None
    assert there.reflection.api_key.get_secret_value() == "sk-2"
    assert (there.p2o, there.seed, there.gates) == (settings.p2o, 7, settings.gates)


# Distillation of a response

RESPONSE = {
    "prompt": "hint question",
    "observation_tokens": [1, 2, 3, 7, 8, 0, 9],
    "action_ranges": [(3, 5), (6, 7)],
    "rollout_log_probs": [0.0, 0.0, 0.0, -1.0, -2.0, 0.0, -3.0],
}


def test_all_turns_move_along_with_a_shorter_prompt() -> None:
    response = with_prompt(RESPONSE, [1, 2, 3], "question", [3])
    assert response["observation_tokens"] == [3, 7, 8, 0, 9]
    assert response["action_ranges"] == [(1, 3), (4, 5)]
    assert response["rollout_log_probs"] == [0.0, -1.0, -2.0, 0.0, -3.0]
    assert response["prompt"] == "question"
    assert RESPONSE["observation_tokens"][0] == 1


def test_without_log_probs() -> None:
    response = with_prompt({**RESPONSE, "rollout_log_probs": None}, [1, 2, 3], "question", [3])
    assert response["rollout_log_probs"] is None


@pytest.mark.parametrize("rolled_out", [[1, 2, 4], [1, 2]])
def test_a_response_to_another_prompt_is_refused(rolled_out: list[int]) -> None:
    with pytest.raises(
        HostError, match="an agent's reset.. must hand on the observation unchanged"
    ):
        with_prompt(RESPONSE, rolled_out, "question", [3])


# Steps and episodes


def test_an_episode_with_a_short_last_batch() -> None:
    progress = Progress()
    progress.generated(prompts=4, trained=True, exhausted=False)
    assert (progress.step_due, progress.epoch_due) == (True, False)
    progress.generated(prompts=3, trained=True, exhausted=True)
    assert (progress.batches, progress.epoch_due) == (2, True)


def test_an_episode_that_divides_evenly_ends_once() -> None:
    progress = Progress()
    progress.generated(prompts=4, trained=True, exhausted=False)
    progress.generated(prompts=0, trained=False, exhausted=True)
    assert progress.epoch_due
    progress.epoch_due = False
    progress.generated(
        prompts=0, trained=False, exhausted=True
    )  # a run resumed right there sees it again
    assert not progress.epoch_due


def test_an_episode_that_dynamic_filtering_left_nothing_of_ends_too() -> None:
    progress = Progress()
    progress.generated(prompts=8, trained=False, exhausted=True)
    assert (progress.batches, progress.step_due, progress.epoch_due) == (0, False, True)


def test_it_survives_a_checkpoint() -> None:
    progress = Progress(batches=3, prompts_in_episode=1, step_due=True)
    assert Progress(**progress.to_json()) == progress
