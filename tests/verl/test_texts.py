"""Check which responses the driver fetches in a step, without a trainer."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from prompt_coevo.adapters.common.late_texts import LateTexts
from prompt_coevo.adapters.verl import trainer
from prompt_coevo.adapters.verl.trainer import STALENESS, CoevoTrainer
from prompt_coevo.types import Assignment, PolicyVersion, Rollout

KEYS = ["uid_0_0", "uid_1_0", "uid_2_0"]


@pytest.mark.parametrize("kept", [[], [2], [0, 2]])
def test_only_responses_of_rollouts_that_somebody_holds_are_fetched(
    monkeypatch: pytest.MonkeyPatch, kept: list[int]
) -> None:
    fetched: list[str] = []
    held: list[Rollout] = []

    def texts_of(keys: Sequence[str], partition: str, tokenizer: Any) -> list[str]:
        fetched.extend(keys)
        return [f"text of {key}" for key in keys]

    def collect(keys: Sequence[str], texts: LateTexts) -> list[Rollout]:
        version = PolicyVersion(0, 2)
        return [
            Rollout.scored(Assignment("q1"), texts.late(key), 1.0, version, None) for key in keys
        ]

    monkeypatch.setattr(trainer, "texts_of", texts_of)
    made = object.__new__(CoevoTrainer)
    monkeypatch.setattr(made, "_collect", collect)
    made.config, made.tokenizer = OmegaConf.create({"trainer": {}}), None
    made._engine = SimpleNamespace(policy_version=PolicyVersion(0, 3))
    under_way = SimpleNamespace(
        observe=lambda rollouts, uids: held.extend(rollouts[place] for place in kept),
        planned=lambda uids: {uid: [Assignment("q1")] * len(KEYS) for uid in uids},
        all=dict,
        clear=lambda: None,
    )
    made._dispatcher = SimpleNamespace(under_way=under_way)
    metrics: dict[str, float] = {}
    made._observe(KEYS, metrics)
    assert fetched == [KEYS[place] for place in kept]
    assert [one.completion for one in held] == [f"text of {KEYS[place]}" for place in kept]
    assert metrics == {STALENESS: 1.0}
