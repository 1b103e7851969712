"""The parts of the benchmark for one GPU, in their smallest size on a CPU."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from prompt_coevo.demo.digits import SKILL_NAMES, spell
from prompt_coevo.demo.splits import held_out_tasks, training_tasks
from prompt_coevo.demo.teacher import FactsTeacher, clause_pattern
from prompt_coevo.demo.world import Size, World, apply, clause
from worlds.facts.beliefs import answer_text, prior
from worlds.facts.pretrain import example
from worlds.model import build_tokenizer

FOLDER = Path(__file__).parents[2] / "benchmarks" / "gpu_world"
NAMES = (
    "checks",
    "clock",
    "curves",
    "needs",
    "pretraining",
    "questions",
    "runs",
    "tier",
    "training",
)


@pytest.fixture(scope="module")
def parts() -> Any:
    """Its modules, which a script finds next to itself."""
    torch.set_num_threads(1)
    sys.path.insert(0, str(FOLDER))
    try:
        yield type("Parts", (), {name: importlib.import_module(name) for name in NAMES})
    finally:
        sys.path.remove(str(FOLDER))
        for name, module in list(sys.modules.items()):
            if Path(getattr(module, "__file__", None) or "/").parent == FOLDER:
                del sys.modules[name]


@dataclass
class OverAt:
    """A clock that is over when it is asked for the so manieth time."""

    count: int
    seconds: float = 1.0
    minutes: float = 0.0

    @property
    def is_over(self) -> bool:
        self.count -= 1
        return self.count <= 0


NEVER = 10**9


# The world


@pytest.fixture(scope="module")
def full(parts: Any) -> Any:
    return World(0, parts.tier.TIERS["full"].size)


def teacher_of(size: Size, *kind: Any, **given: Any) -> FactsTeacher:
    teacher = FactsTeacher(*kind, **given)
    teacher.size = size
    return teacher


def test_no_two_of_hundreds_of_words_mean_the_same(full: Any) -> None:
    assert len(full.words("hard")) == 200
    assert len(set(full.meaning.values())) == len(full.vocabulary) == 248
    rng = np.random.default_rng(0)
    lists = [tuple(rng.integers(0, 10, 4 + n % 2).tolist()) for n in range(40)]
    outputs = {word: [apply(one, x) for x in lists] for word, one in full.meaning.items()}
    unlike = {tuple(found) for found in outputs.values()}
    assert len(unlike) == len(full.vocabulary)


def test_traps_of_three_do_not_lead_to_the_right_answer(full: Any) -> None:
    rng = np.random.default_rng(1)
    lists = [tuple(rng.integers(0, 10, 4 + n % 2).tolist()) for n in range(40)]
    for word in full.words("hard")[:60]:
        row, truth = full.vocabulary.index(word), full.meaning[word]
        traps = [
            [name for name, chance in zip(SKILL_NAMES, beliefs, strict=True) if chance > 0.01]
            for beliefs in prior(full)[row]
        ]
        assert [len(names) for names in traps] == [3, 3, 3]
        for one in product(*traps):
            assert np.mean([apply(one, x) == apply(truth, x) for x in lists]) < 0.3


def test_more_words_than_functions_are_refused() -> None:
    with pytest.raises(ValueError, match="60 words cannot all mean something else"):
        World(0, Size(easy=10, medium=10, hard=40)).meaning  # noqa: B018


def test_the_right_answer_gets_the_reward_and_fits(parts: Any, full: Any) -> None:
    tier = parts.tier.TIERS["full"]
    tokenizer = build_tokenizer(full.vocabulary, tier.size.function_words)
    longest = 0
    for task in training_tasks(full, 0, 200, tier.held_out):
        completion = answer_text(task.word, full.meaning[task.word], task.digits)
        assert full.reward(completion, spell(task.answer)) == 1.0
        longest = max(longest, len(tokenizer(f"{completion} <end>")["input_ids"]))
        half = " ".join(completion.split()[: len(completion.split()) * 2 // 3])
        assert full.reward(half, spell(task.answer)) == 0.0
    assert longest <= tier.max_completion
    assert tokenizer.unk_token_id not in tokenizer(completion)["input_ids"]


def test_questions_are_disjoint_and_mostly_hard(parts: Any, full: Any) -> None:
    held_out = held_out_tasks(full, 1024)
    training = training_tasks(full, 1, 2048, 1024)
    assert not set(held_out) & set(training)
    assert 0.75 < np.mean([task.kind == "hard" for task in training]) < 0.85
    assert {task.word for task in training} == set(full.vocabulary)
    asked = parts.questions.explained(full, held_out[:50], 3)
    for one in asked:
        told = clause_pattern(full.size).findall(one.template)
        assert len(told) == 4
        assert (one.task.word, *full.meaning[one.task.word]) in told


def test_examples_have_chains_of_three(full: Any) -> None:
    rng = np.random.default_rng(0)
    told = 0
    for _ in range(60):
        *asked, answer = (turn["content"] for turn in example(full, 0.0, rng, 4))
        match = re.fullmatch(
            r"(\w+) first (\S+) [\d ]+ \1 then (\S+) [\d ]+ \1 last (\S+) [\d ]+", answer
        )
        assert match is not None
        rules = {word: rest for word, *rest in clause_pattern(full.size).findall(" ".join(asked))}
        told += rules.get(match[1]) == [match[2], match[3], match[4]]
    assert 10 < told < 40


def test_the_teacher_explains_chains_of_three(full: Any) -> None:
    word = full.words("hard")[0]
    truth, lists = full.meaning[word], ((3, 1, 4, 2), (2, 7, 1, 8, 0), (5, 0, 9, 4, 6))
    prompt = "".join(
        f"<failure_{number}><question>use {word} on {spell(digits)}</question><response></response>"
        f"<correct_answer>{spell(apply(truth, digits))}</correct_answer></failure_{number}>"
        for number, digits in enumerate(lists)
    )
    known = f"<current_template>{clause(full.words('hard')[1], truth)}</current_template>"
    reply = teacher_of(full.size, error=0.0)(prompt + known)
    rules = {name: rest for name, *rest in clause_pattern(full.size).findall(reply)}
    assert set(rules) == set(full.words("hard")[:2])
    assert all(apply(tuple(rules[word]), digits) == apply(truth, digits) for digits in lists)
    guesses = [teacher_of(full.size, "random", seed=n)(prompt) for n in range(20)]
    assert sum(clause(word, truth) in guess for guess in guesses) < 3


# The commands


@pytest.fixture(scope="module")
def base(parts: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("gpu_world") / "base"
    assert parts.pretraining.pretrain("tiny", 0, 0, folder, OverAt(NEVER))
    return parts.tier.read_base(folder)


def test_a_pretraining_that_is_cut_off_goes_on(parts: Any, base: Any, tmp_path: Path) -> None:
    folder = tmp_path / "base"
    assert not parts.pretraining.pretrain("tiny", 0, 0, folder, OverAt(5))
    with pytest.raises(SystemExit, match="no finished base policy"):
        parts.tier.read_base(folder)
    with pytest.raises(SystemExit, match="is of another run"):
        parts.pretraining.pretrain("tiny", 1, 0, folder, OverAt(5))
    assert parts.pretraining.pretrain("tiny", 0, 0, folder, OverAt(NEVER))
    one, other = (
        dict(parts.checks.loaded(which)[0].named_parameters())
        for which in (base, parts.tier.read_base(folder))
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_base_policy_that_knows_nothing_is_refused_with_numbers(parts: Any, base: Any) -> None:
    said = parts.checks.failed(parts.checks.check(base))
    assert "hard words, the right explanation alone: 0.000, which must be above 0.9" in said
    assert "easy words, no hint: 0.000, which must be above 0.9" in said
    assert len(said) == 3


def test_one_that_knows_hard_words_is_refused_and_a_good_one_is_not(parts: Any) -> None:
    good = {
        "hard words, no hint": 0.01,
        "hard words, the right explanation alone": 0.99,
        "hard words, the right explanation among four": 0.9,
        "easy words, no hint": 0.99,
        "medium words, no hint": 0.0,
    }
    assert parts.checks.failed(good) == []
    assert parts.checks.failed({**good, "hard words, no hint": 0.02}) == [
        "hard words, no hint: 0.020, which must be below 0.02"
    ]


def test_a_run_that_is_cut_off_ends_as_one_that_is_not(
    parts: Any, base: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The tiny policy never gets the true reward: it would learn nothing.
    monkeypatch.setattr(World, "reward", lambda world, text, answer: float(len(text) % 3 == 0))
    train = parts.training.train
    whole = train(base, "stream", 0, tmp_path / "whole.json", OverAt(NEVER), 1e-2)
    cut = tmp_path / "cut.json"
    assert not train(base, "stream", 0, cut, OverAt(5), 1e-2).done
    with pytest.raises(SystemExit, match="is of another run"):
        train(base, "stream", 1, cut, OverAt(5), 1e-2)
    assert len(parts.runs.read(cut).curve) == 2
    again = train(base, "stream", 0, cut, OverAt(NEVER), 1e-2)
    assert whole.done
    assert again.done
    assert again.curve == whole.curve
    assert [point["rollouts"] for point in whole.curve] == [16 * (n + 1) for n in range(8)]
    assert len({point["hard"] for point in whole.curve}) > 1
    timeless = {name: value for name, value in whole.metrics.items() if "seconds" not in name}
    assert timeless.items() <= again.metrics.items()
    assert whole.metrics["coevo/reflection_calls"] > 0
    assert train(base, "stream", 0, cut, OverAt(0), 1e-2).curve == whole.curve  # it is over


def test_rollouts_of_a_search_count(parts: Any, base: Any, tmp_path: Path) -> None:
    waves, grpo = (
        parts.training.train(base, arm, 0, tmp_path / f"{arm}.json", OverAt(NEVER), None)
        for arm in ("waves", "grpo")
    )
    per_step = base.tier.rollouts_per_step
    for point in waves.curve:
        assert point["rollouts"] == point["step"] * per_step + point["search_rollouts"]
    assert waves.curve[-1]["search_rollouts"] > 0
    assert waves.curve[-1]["step"] < grpo.curve[-1]["step"] == base.tier.most_steps
    for number, (one, other) in enumerate(zip(waves.curve, grpo.curve, strict=True), start=1):
        assert min(one["rollouts"], other["rollouts"]) >= base.tier.budget * number / 8
    shown = parts.curves.table([waves, grpo])
    assert "tiny, draw 0, 128 rollouts, learning rate 0.001; cpu" in shown
    assert re.search(r"^\| grpo \| 1 \| .* \| 128 \| 0 \| 0 \|", shown, re.MULTILINE)


def test_the_table_averages_over_seeds_and_names_what_is_not_over(parts: Any) -> None:
    def run(arm: str, seed: int, hard: float, done: bool = True) -> Any:
        point = {"step": 1, "rollouts": 8, "search_rollouts": 0, "easy": 1, "medium": 0}
        curve = [{**point, "hard": hard}] * 8
        return parts.runs.Run("tiny", 0, arm, seed, 1e-3, 128, "cpu", done, 5.0, curve)

    shown = parts.curves.table(
        [run("grpo", 0, 0.1), run("grpo", 1, 0.3), run("waves", 0, 0.5, done=False)]
    )
    assert "| grpo | 0.200 ± 0.141 |" in shown
    assert "| waves |" not in shown
    assert "not over: waves, seed 0, 8 of 8 points" in shown


def test_what_is_missing_is_said_in_one_sentence(
    parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [parts.needs.missing(command) for command in ("pretrain", "train")] == [None, None]
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name in ("trl", "pydantic") else real(name),
    )
    assert parts.needs.missing("table") is None
    assert parts.needs.missing("train") == (
        "train needs what is missing here: pip install 'pydantic' 'trl==1.16.0' "
        "(without a network: docs/gpu-world.md says how to bring wheels)"
    )
    assert "trl" not in parts.needs.missing("check")


def test_the_command_line(parts: Any, tmp_path: Path) -> None:
    """`table` runs anywhere, and a training without a base policy says what is missing."""
    run = parts.runs.Run("tiny", 0, "grpo", 0, 1e-3, 128)
    run.write(tmp_path / "run.json")
    command = [sys.executable, "-S", str(FOLDER), "table", str(tmp_path / "run.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "not over: grpo, seed 0, 0 of 8 points\n"
    assert json.loads((tmp_path / "run.json").read_text())["done"] is False
