"""Check the transformer tier of the benchmark of methods with the smallest run of every kind."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from prompt_coevo.demo import train as demo
from prompt_coevo.demo.world import World, base_path
from prompt_coevo.errors import SettingsError
from worlds.facts.checks import check

FOLDER = Path(__file__).parents[2] / "benchmarks" / "methods"
STEP = 192


@pytest.fixture
def transformer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the module with a budget of two steps."""
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module("transformer")
    monkeypatch.setattr(module, "BUDGET", 2 * STEP)
    return module


# One arm of each course; other tests check how the courses are built.
@pytest.mark.parametrize(
    "arm",
    [
        "stream",
        "kl",
        "success-weight",
        "random-hints",
        "frozen",
        "frozen-first",
        "sdft",
        "sdpo",
    ],
)
def test_a_run_spends_the_budget_and_says_what_came_of_it(transformer: Any, arm: str) -> None:
    one = json.loads(json.dumps(transformer.run("facts", arm, 0, 0)))
    assert one["budget"] == 2 * STEP
    assert 0 <= one["training"] + one["outside"] - one["budget"] < STEP
    assert one["spent"][0] == 0
    assert one["spent"][-1] == one["training"] + one["outside"]
    assert all(len(curve) == len(one["spent"]) for curve in one["curve"].values())
    assert one["curve"]["hard"][0] < 0.02
    assert one["curve"]["easy"][0] > 0.9
    assert len(one["words"]) == 40
    assert one["last"]["longer"][1] > 100


def test_the_balanced_world_trains_on_other_questions_and_asks_the_same(
    transformer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    balanced, trained = importlib.import_module("balanced"), []
    build = demo.build_trainer

    def building(base: Any, tasks: Any, *rest: Any, **more: Any) -> Any:
        trained.extend(task.kind for task in tasks)
        return build(base, tasks, *rest, **more)

    monkeypatch.setattr(demo, "build_trainer", building)
    ours = balanced.run(balanced.WORLD, "grpo", 0, 0)
    assert 0.35 < trained.count("hard") / len(trained) < 0.45
    usual = transformer.run("facts", "grpo", 0, 0)
    assert ours["words"].keys() == usual["words"].keys()
    assert [ours["curve"][kind][0] for kind in ("easy", "medium", "hard")] == [
        usual["curve"][kind][0] for kind in ("easy", "medium", "hard")
    ]
    assert balanced.frozen()["grpo"] != transformer.frozen()["grpo"]
    assert balanced.plan(["grpo"], 1, None) == [("facts, balanced", "grpo", 0, 0)]


def test_the_headline_comes_first_and_in_all_draws(transformer: Any) -> None:
    keys = transformer.plan(list(transformer.ARMS), None, None)
    headline = [key for key in keys if key[1] in transformer.HEADLINE]
    assert keys[: len(headline)] == headline
    assert len(headline) == 3 * 3 * 10
    others = {arm: [key for key in keys if key[1] == arm] for arm in transformer.ARMS}
    assert {len(found) for arm, found in others.items() if arm not in transformer.HEADLINE} == {3}
    assert len(set(keys)) == len(keys)


def test_a_draw_without_a_base_policy_is_refused(
    transformer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformer, "BASES", tmp_path)
    with pytest.raises(transformer.ResultsError, match=r"no base policy for draw 1 in .*: make it"):
        transformer.check([("facts", "grpo", 0, 1)])
    shutil.copytree(base_path(World()), tmp_path / "draw1")
    with pytest.raises(
        transformer.ResultsError, match=r"not fit for draw 1 .*easy, no hint: 0\.\d"
    ):
        transformer.check([("facts", "grpo", 0, 1)])


def test_an_arm_without_its_package_is_refused(
    transformer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(transformer.ResultsError, match="pip install docs/plugins/espl"):
        transformer.check([("facts", "grpo", 0, 0), ("facts", "espl", 0, 0)])


def test_the_hash_of_an_arm_knows_what_its_preset_says(transformer: Any) -> None:
    frozen = transformer.frozen()
    assert set(frozen) == set(transformer.ARMS)
    assert frozen["p2o"]["preset"]["p2o"]["dev_size"] == 64
    assert frozen["grpo"]["common"]["budget"] > 0
    json.dumps(frozen, default=dict)


def test_a_base_policy_that_does_not_obey_is_refused_with_the_numbers(tmp_path: Path) -> None:
    base = base_path(World())
    assert check(base, World())["hard, the right one among ten"] > 0.6
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    with torch.no_grad():
        model.model.layers[1].self_attn.o_proj.weight.zero_()
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path)
    with pytest.raises(SettingsError, match="hard, the right explanation: 0"):
        check(tmp_path, World())
