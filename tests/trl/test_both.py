"""Check INSPO and P2O together in the real trainer: which method learns from which rollout."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import pytest

from helpers.inspo_world import (
    INSPO,
    BestSoFar,
    Recorder,
    events,
    inspo_state,
    teach,
)
from helpers.trl_world import TASKS, WORLD, FixedTemplates, right_hint, score
from prompt_coevo.adapters.trl import attach
from prompt_coevo.engine.state import plugin_states

# Every second rollout of a question is helped, so none is hard at this tau; without help all would be.
HALF = FixedTemplates({f"q{n}": [right_hint(task), ""] for n, task in enumerate(TASKS[:5])})
P2O = {
    "overspend": "never",
    "tau": 0.2,
    "dev_size": 3,
    "minibatch_size": 3,
    "search_budget": 40,
}


def reply(prompt: str) -> str:
    """Answer INSPO's proposers with instructions, P2O's with hints."""
    if "<ins_0>" in prompt:
        return teach(prompt)
    clauses = [f"{word} means {skill} ." for word, skill in WORLD.meaning.items() if word in prompt]
    return f"<template>{' '.join(clauses)}</template>"


def settings(p2o: dict[str, Any] | None = None, **inspo: Any) -> dict[str, Any]:
    return {
        "algorithms": ("inspo", "p2o"),
        "question_id_column": "id",
        "reflection": {"function": reply},
        "inspo": {**INSPO, **inspo},
        "p2o": {**P2O, **(p2o or {})},
    }


def test_a_templated_rollout_counts_for_hardness_and_not_for_an_instruction(
    make_trainer: Any,
) -> None:
    trainer = make_trainer(max_steps=4, reward_funcs=score, per_device_train_batch_size=16)
    recorder = Recorder()
    callback = attach(
        trainer,
        settings(evolution="off", prune=False),
        plugins={"recorder": recorder, "half": HALF},
    )
    trainer.train()
    told = events(trainer, "instruction_weights")
    untemplated = 0
    latest: dict[str, list[float]] = {}
    for groups, event in zip(recorder.rounds, told, strict=True):
        by_instruction = defaultdict(list)
        for group in groups:
            latest[group.question_id] = [rollout.reward for rollout in group.rollouts]
            for rollout in group.rollouts:
                if not rollout.assignment.templated:
                    by_instruction[rollout.assignment.instruction.id].append(rollout.reward)
        untemplated += sum(map(len, by_instruction.values()))
        assert event["means"] == {
            k: pytest.approx(sum(v) / len(v)) for k, v in by_instruction.items()
        }
    assert untemplated < 4 * 16
    assert len(inspo_state(callback)["buffer"]["questions"]) == untemplated
    hard = {name for name, rewards in latest.items() if sum(rewards) / len(rewards) < 0.2}
    state = plugin_states(callback.engine.state_dict())["p2o"]
    assert set(state["hard"]) == hard
    without_help = {name for name, rewards in latest.items() if sum(rewards[1::2]) == 0}
    assert {f"q{n}" for n in range(5)} & without_help - hard


@pytest.mark.parametrize("every", ["epoch", 2])
def test_a_search_runs_under_the_best_instruction_of_its_step(
    make_trainer: Any, every: Any
) -> None:
    """Rewards keep rising, so the best instruction is the last sampled one."""
    calls = itertools.count()
    rising = {
        "evolution": "off",
        "prune": False,
        "window": 1,
        "selection_temperature": 1e6,
    }
    trainer = make_trainer(
        max_steps=12,
        reward_funcs=lambda completions, **_: [float(next(calls)) for _ in completions],
    )
    callback = attach(
        trainer, settings({"tau": 1e9, "solved_at": 1e9, "search_every": every}, **rising)
    )
    searched: list[tuple[int, str]] = []
    rollout = callback.policy.rollout

    def spy(requests: Any) -> Any:
        for request in requests:
            assert request.assignment.template is not None
            searched.append((trainer.state.global_step, request.assignment.instruction.text))
        return rollout(requests)

    callback.policy.rollout = spy
    best = BestSoFar(callback)
    trainer.add_callback(best)
    trainer.train()
    assert {step for step, _ in searched} == ({4, 8} if every == "epoch" else {2, 4, 6, 8, 10})
    assert len({text for _, text in searched}) > 1
    assert all(text == best.texts[step - 1] for step, text in searched)
