"""Check INSPO in the real trainers: what is sampled, what is trained on, and what the population learns."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import trl
from datasets import Dataset
from packaging.version import Version
from transformers import TrainerCallback
from trl import GRPOTrainer, RLOOTrainer

from helpers.inspo_world import (
    FIRST,
    QUESTIONS,
    BestSoFar,
    Recorder,
    argmax,
    events,
    inspo_state,
    population,
    settings,
    teach,
)
from helpers.spies import Spy
from helpers.trl_world import TASKS, length, rows, score
from prompt_coevo.adapters.trl import CoevoCallback, attach
from prompt_coevo.demo.instruction_teacher import InstructionTeacher
from prompt_coevo.engine.state import plugin_states
from worlds.pairs.teacher import Teacher

Messages = list[dict[str, str]]


def system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def dataset(prompt: Callable[[str], Any]) -> list[dict[str, Any]]:
    return [{**row, "prompt": prompt(q)} for row, q in zip(rows(), QUESTIONS, strict=True)]


def turns(question: str) -> Messages:
    return [user("note"), {"role": "assistant", "content": "now"}, user(question)]


@pytest.fixture
def ids(tokenizer: Any) -> Callable[[Any], tuple[int, ...]]:
    """Return the token ids of a prompt, straight from the tokenizer."""

    def of(prompt: Any) -> tuple[int, ...]:
        if isinstance(prompt, str):
            return tuple(tokenizer(prompt)["input_ids"])
        chat = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True)
        return tuple(chat["input_ids"])

    return of


def train(trainer: Any, recorder: Recorder | None = None, **changes: Any) -> CoevoCallback:
    plugins = {"recorder": recorder} if recorder else {}
    callback = attach(trainer, settings(**changes), plugins=plugins)
    trainer.train()
    return callback


def rendered(question: str) -> str:
    return f"<user> {question} <end> <assistant>"


# The dataset's prompt of a question, the prompt to train on under an instruction, changed settings.
PROMPTS: dict[str, tuple[Callable[[str], Any], Callable[[str, str], Any], dict[str, Any]]] = {
    "a system message of its own": (
        lambda q: [system(FIRST), user(q)],
        lambda i, q: [system(i), user(q)],
        {"inspo": {"instruction": None}},
    ),
    "several turns": (
        turns,
        lambda i, q: [system(i), *turns(q)],
        {},
    ),
    "string": (
        lambda q: q,
        lambda i, q: f"{i}\n\n{q}",
        {},
    ),
    "rendered chat": (
        rendered,
        lambda i, q: [system(i), user(q)],
        {},
    ),
}


@pytest.mark.parametrize("kind", PROMPTS)
def test_every_group_is_trained_under_an_instruction_of_the_population(
    make_trainer: Any, ids: Any, kind: str
) -> None:
    original, placed, changes = PROMPTS[kind]
    shown: list[Any] = []

    def reward(prompts: Any, **columns: Any) -> list[float]:
        shown.extend(prompts)
        return score(**columns)

    built = make_trainer(dataset=dataset(original), reward_funcs=reward, max_steps=6, beta=0.05)
    spy, recorder = Spy.on(built), Recorder()
    callback = train(built, recorder, **changes)

    assert recorder.populations[0][0] == FIRST
    used = set()
    for index, (prompts, completions) in enumerate(spy.sampled):
        allowed = {ids(placed(i, q)): i for i in recorder.populations[index] for q in QUESTIONS}
        sampled = [tuple(prompt) for prompt in prompts]
        for first in range(0, len(sampled), 4):
            assert len(set(sampled[first : first + 4])) == 1
        used |= {allowed[prompt] for prompt in sampled}
        trained = [(tuple(prompt), tuple(completion)) for prompt, completion in spy.rows(index)]
        assert Counter(trained) == Counter(zip(sampled, map(tuple, completions), strict=True))
    assert len(used) > 1

    changed = events(built, "population_changed")
    assert any(event["removed"] and event["step"] in (2, 4) for event in changed)
    joined = [event for event in changed if event["added"] and event["step"] == 4]
    assert joined
    assert joined[0]["added"][0]["origin"] == "reflection"
    texts = {text for texts in recorder.populations for text in texts}
    assert joined[0]["added"][0]["text"] in texts
    # Rewards saw the dataset's own prompts, in training and in verification.
    assert len(shown) == 6 * 8 + callback.engine.metrics()["coevo/verify_rollouts"] > 6 * 8
    assert all(prompt in [original(q) for q in QUESTIONS] for prompt in shown)


def test_a_window_entry_is_the_mean_reward_under_the_instruction(
    make_trainer: Any, ids: Any
) -> None:
    """Computed from the sampled-on prompts and the reward function's values."""
    batches: list[list[float]] = []

    def reward(completions: Any, **_: Any) -> list[float]:
        batches.append(length(completions))
        return batches[-1]

    trainer = make_trainer(reward_funcs=reward, max_steps=4, per_device_train_batch_size=16)
    spy, recorder = Spy.on(trainer), Recorder()
    train(trainer, recorder, inspo={"evolution": "off", "prune": False})
    told = events(trainer, "instruction_weights")
    assert [event["inspo_step"] for event in told] == [1, 2, 3, 4]
    names = {m["text"]: m["id"] for m in events(trainer, "population_changed")[0]["added"]}
    for (prompts, _), rewards, event in zip(spy.sampled, batches, told, strict=True):
        of = {ids([system(i), user(q)]): i for i in recorder.populations[0] for q in QUESTIONS}
        by_instruction = defaultdict(list)
        for prompt, value in zip(prompts, rewards, strict=True):
            by_instruction[names[of[tuple(prompt)]]].append(value)
        means = {name: sum(values) / len(values) for name, values in by_instruction.items()}
        assert event["means"] == pytest.approx(means, abs=1e-6)


def test_an_update_on_an_old_round_is_no_step(make_trainer: Any) -> None:
    trainer = make_trainer(max_steps=8, num_iterations=2, steps_per_generation=2)
    callback = train(trainer, inspo={"window": 100, "prune": False, "evolution": "off"})
    assert inspo_state(callback)["step"] == 2  # a round serves four updates
    told = events(trainer, "instruction_weights")
    assert [(event["step"], event["inspo_step"]) for event in told] == [(1, 1), (5, 2)]
    entries = sum(len(member["window"]) for member in population(callback))
    assert entries == sum(len(event["means"]) for event in told)


def test_two_rounds_of_one_update_make_one_entry(make_trainer: Any) -> None:
    trainer = make_trainer(
        max_steps=3,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        steps_per_generation=1,
    )
    recorder = Recorder()
    train(trainer, recorder, inspo={"evolution": "off", "prune": False, "paraphrase": False})
    rewards = [[r.reward for group in one for r in group.rollouts] for one in recorder.rounds]
    assert len(rewards) == 6
    pairs = [rewards[n] + rewards[n + 1] for n in (0, 2, 4)]
    told = [list(event["means"].values()) for event in events(trainer, "instruction_weights")]
    assert told == [[pytest.approx(sum(both) / 8)] for both in pairs]


# An evolution at step 2 finds instructions that help the current policy.
EVOLVING = {
    "max_steps": 6,
    "reward_funcs": score,
    "learning_rate": 0.0,
    "per_device_train_batch_size": 16,
}
QUICK = {"paraphrase": False, "evolve_every": 2, "verify_size": 8}
REASONING = {"function": InstructionTeacher(Teacher(max_clauses=10))}

EVALUATION = {
    "eval_dataset": Dataset.from_list(dataset(lambda q: [system("now"), user(q)])[:2]),
    "eval_strategy": "steps",
    "eval_steps": 1,
    "per_device_eval_batch_size": 8,
}


@pytest.mark.parametrize(("trainer", "under"), [(RLOOTrainer, "best"), (GRPOTrainer, "none")])
def test_evaluation_runs_under_the_best_instruction_or_none(
    make_trainer: Any, ids: Any, trainer: type, under: str
) -> None:
    built = make_trainer(trainer, **EVOLVING, **EVALUATION)
    spy = Spy.on(built)
    inspo = {**QUICK, "validation_instruction": under}
    callback = attach(built, settings(inspo=inspo, reflection=REASONING))
    best = BestSoFar(callback)
    built.add_callback(best)
    built.train()
    assert len(set(best.texts)) > 1
    built.evaluate()
    evaluated = [
        {tuple(ids_[mask.bool()].tolist()) for ids_, mask in zip(*both, strict=True)}
        for both in ((loss["prompt_ids"], loss["prompt_mask"]) for loss in spy.losses)
    ]
    evaluated = [
        prompts for prompts, loss in zip(evaluated, spy.losses, strict=True) if not loss["training"]
    ]
    expected = [text if under == "best" else "now" for text in [*best.texts, best.texts[-1]]]
    assert evaluated == [{ids([system(i), user(q)]) for q in QUESTIONS[:2]} for i in expected]


def test_the_best_instruction_and_the_numbers_are_written(make_trainer: Any) -> None:
    trainer = make_trainer(max_steps=6)
    callback = train(trainer)
    folder = Path(trainer.args.output_dir) / "coevo"
    best = argmax(population(callback))
    assert (folder / "best_instruction.txt").read_text().strip() == best
    history = [entry for entry in trainer.state.log_history if "coevo/population" in entry]
    assert len(history) == 6
    assert history[0]["coevo/population"] == 4
    assert [entry["coevo/evolutions"] for entry in history] == [0, 0, 0, 1, 1, 1]
    weights = {
        member["instruction"]["text"]: sum(member["window"]) / len(member["window"])
        for member in population(callback)
        if member["window"]
    }
    assert history[-1]["coevo/best_instruction_weight"] == pytest.approx(max(weights.values()))
    assert history[-1]["coevo/verify_rollouts"] > 0
    assert history[-1]["coevo/reflection_calls"] == len(events(trainer, "reply"))


def test_instructions_stand_in_the_completions_table(make_trainer: Any) -> None:
    trainer = make_trainer(log_completions=True, max_steps=2)
    recorder = Recorder()
    train(trainer, recorder)
    paths = sorted((Path(trainer.args.output_dir) / "completions").glob("*.parquet"))
    assert len(paths) == 2
    for path, groups, members in zip(paths, recorder.rounds, recorder.populations, strict=True):
        table = pd.read_parquet(path)
        told = [r.assignment.instruction.text for group in groups for r in group.rollouts]
        assert table["coevo_instruction"].tolist() == told
        assert set(told) <= set(members)
        if Version(trl.__version__) >= Version("1.16"):  # 1.9 decodes what the policy saw
            assert not table["prompt"].astype(str).str.contains(FIRST).any()


def test_evolved_instructions_help(make_trainer: Any) -> None:
    """With a reasoning teacher, rollouts under the instruction in use get higher rewards."""
    trainer = make_trainer(**EVOLVING)
    train(trainer, inspo=QUICK, reflection=REASONING)
    means = [max(e["means"].values()) for e in events(trainer, "instruction_weights")]
    assert max(means[:2]) < 0.1 < 0.3 < max(means[-2:])


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_search_before_or_after_training(make_trainer: Any, ids: Any, when: str) -> None:
    trainer = make_trainer(max_steps=3, reward_funcs=score)
    spy = Spy.on(trainer)
    inspo = {"evolution": when, "evolve_every": 2, "evolve_until": 6, "paraphrase": False}
    callback = train(
        trainer, inspo=inspo, reflection={"function": InstructionTeacher(Teacher(max_clauses=10))}
    )
    (best,) = population(callback)
    text = best["instruction"]["text"]
    assert text != FIRST
    assert callback.engine.metrics()["coevo/evolutions"] == 2
    trained_on = text if when == "before" else FIRST
    expected = {ids([system(trained_on), user(question)]) for question in QUESTIONS}
    assert {tuple(p) for n in range(len(spy.losses)) for p, _ in spy.rows(n)} <= expected


class StopAfter(TrainerCallback):
    """End training as early stopping does: after the step's own callbacks."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = state.global_step >= self._step


@pytest.mark.parametrize(
    ("inspo", "dropped", "evolutions"),
    [
        ({"reflection": "overlapped", "overlap_steps": 3}, ["training is over"], 1),
        ({"evolution": "after", "evolve_until": 9}, [], 2),
    ],
)
def test_a_run_that_somebody_else_stops_ends_like_any_other(
    make_trainer: Any, inspo: dict[str, Any], dropped: list[str], evolutions: int
) -> None:
    """Reflection requested at step 4 is due at step 7; the search after training still happens."""
    trainer = make_trainer(max_steps=20)
    callback = attach(trainer, settings(inspo=inspo))
    trainer.add_callback(StopAfter(5))
    trainer.train()
    assert trainer.state.global_step == 5
    assert [event["reason"] for event in events(trainer, "reflection_dropped")] == dropped
    assert callback.engine.metrics()["coevo/evolutions"] == evolutions


# Resuming. These rewards do not depend on the samples.


def by_question(answer: list[str], **_: Any) -> list[float]:
    return [len(set(text)) / 10 for text in answer]


class Gate(TrainerCallback):
    """Opens once a step has been saved."""

    def __init__(self, step: int) -> None:
        self.opened = threading.Event()
        self._step = step

    def on_step_begin(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        if state.global_step >= self._step:
            self.opened.set()


class Answered(TrainerCallback):
    """Continue once the request in flight has been answered, so that it is saved with its answer."""

    def __init__(self, callback: Any) -> None:
        self._callback = callback

    def on_step_end(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        def flight() -> Any:
            return inspo_state(self._callback)["schedule"]["in_flight"]

        while flight() and not flight()["asked"]["answer"]:
            time.sleep(0.01)


# All within one epoch, because TRL draws another order for the epochs after a resume.
RESUMED = {"max_steps": 14, "reward_funcs": by_question, "dataset": rows(TASKS * 4)}


def decisions(trainer: Any, attempt: int, after: int) -> list[Any]:
    """Return the decisions after a step, without what differs between attempts."""
    kinds = ("instruction_weights", "population_changed", "candidate_verified", "evolution_skipped")
    return [
        {k: v for k, v in event.items() if k not in ("time", "attempt")}
        for event in events(trainer, *kinds)
        if event["attempt"] == attempt and event["step"] > after
    ]


@pytest.mark.parametrize(
    ("inspo", "step", "slow"),
    [
        ({}, 8, False),
        ({"reflection": "overlapped", "overlap_steps": 2}, 5, False),
        ({"reflection": "overlapped", "overlap_steps": 2}, 5, True),
    ],
    ids=["after an evolution", "answered in flight", "unanswered in flight"],
)
def test_a_resumed_run_decides_as_the_uninterrupted_one(
    make_trainer: Any, inspo: dict[str, Any], step: int, slow: bool
) -> None:
    gate = Gate(step if slow else 0)
    asked = []

    def reply(prompt: str) -> str:
        if slow and trainer.state.global_step:
            assert gate.opened.wait(600)
        asked.append(prompt)
        return teach(prompt)

    changes = {"inspo": inspo, "reflection": {"function": reply}}
    trainer = make_trainer(**RESUMED, save_strategy="steps", save_steps=1, save_total_limit=None)
    whole = attach(trainer, settings(**changes))
    trainer.add_callback(gate if slow else Answered(whole))
    trainer.train()
    checkpoint = Path(trainer.args.output_dir) / f"checkpoint-{step}"
    saved = plugin_states(json.loads((checkpoint / "coevo_state.json").read_text()))["inspo"]
    assert bool(saved["schedule"]["in_flight"]) == bool(inspo)
    if inspo:
        assert bool(saved["schedule"]["in_flight"]["asked"]["answer"]) == (not slow)

    again = make_trainer(**RESUMED)
    resumed = attach(again, settings(**changes))
    again.train(resume_from_checkpoint=str(checkpoint))
    expected = decisions(trainer, 0, step)
    assert any(event["event"] == "population_changed" and event["added"] for event in expected)
    assert decisions(again, 1, step) == expected
    one, other = inspo_state(whole), inspo_state(resumed)
    assert windows(one) == windows(other)
    for name in ("schedule", "verify_rollouts", "unfit_rollouts"):
        assert one[name] == other[name]
    if slow:  # repeated, and answered by the journal
        reflected = next(prompt for prompt in asked if "<failure_1>" in prompt)
        assert asked.count(reflected) == 1


def windows(state: dict[str, Any]) -> list[Any]:
    return [
        (member["instruction"]["text"], member["window"], member["prior"])
        for member in state["population"]
    ]
