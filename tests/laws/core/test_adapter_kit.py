"""Check the adapter kit itself, without torch or a trainer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo import Settings
from prompt_coevo.testing.adapter import LAWS, Job, Laboratory, Material, Record, judge, reward_of

ROWS = [
    {"id": f"q{n}", "prompt": [{"role": "user", "content": f"what is {n}?"}], "answer": str(n)}
    for n in range(4)
]

OF_RANKS = {"ranks have one engine and one plan", "ranks stay in step where a reward raises"}


class Silent:
    """A trainer that does nothing at all."""

    material = Material(ROWS, texts=("one", "two", "three"), long_text="four five six")
    lacks: dict[Any, str] = {"ranks": "it runs in one process"}  # noqa: RUF012 (never written to)

    def encode(self, prompt: Any) -> list[int]:
        return list(str(prompt).encode())

    def run(self, job: Job, folder: Path) -> Record:
        return Record([])

    def edit_state(self, checkpoint: Path, edit: Any) -> None:
        raise AssertionError("it has no checkpoint")


def test_the_kit_needs_neither_torch_nor_pytest_to_be_imported() -> None:
    code = "import sys, prompt_coevo.testing.adapter; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert not {"torch", "pytest", "transformers", "trl"} & set(run.stdout.split())
    assert "prompt_coevo.testing.adapter.policy" in run.stdout.split()


def test_a_law_is_one_sentence() -> None:
    for law in LAWS.values():
        assert law.sentence.endswith(".")
        assert ". " not in law.sentence


def test_a_law_that_a_host_cannot_keep_is_excused_in_its_own_words(tmp_path: Path) -> None:
    laboratory = Laboratory(Silent(), tmp_path)
    excused = {law.name: law.excuse(laboratory) for law in LAWS.values()}
    excused = {name: excuse for name, excuse in excused.items() if excuse}
    assert excused == dict.fromkeys(OF_RANKS, "ranks: it runs in one process")


def test_a_host_that_does_nothing_keeps_no_law(tmp_path: Path) -> None:
    verdicts = judge(Silent(), tmp_path)
    assert set(verdicts) == set(LAWS) - OF_RANKS
    assert "return all lines of coevo/events.jsonl" in verdicts["the plan is placed"]


def test_the_settings_of_a_job_are_valid(tmp_path: Path) -> None:
    settings = Settings(**Laboratory(Silent(), tmp_path).job.settings)
    assert settings.plugins["adapter_probe"]["texts"] == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("rule", "rewards"),
    [("zero", {0.0}), ("one", {1.0}), ("none", {None})],
)
def test_rewards_by_rule(rule: Any, rewards: set[float | None]) -> None:
    job = Job({}, ROWS, rewards={"q0": rule})
    assert {reward_of(job, "q0", text) for text in "abc"} == rewards
    assert len({reward_of(job, "q1", text) for text in "abcdefgh"}) == 8


def test_rewards_that_are_sometimes_missing() -> None:
    job = Job({}, ROWS, rewards={"q0": "sometimes none"})
    found = [reward_of(job, "q0", text) for text in "abcdefgh"]
    assert None in found
    assert any(one is not None for one in found)
