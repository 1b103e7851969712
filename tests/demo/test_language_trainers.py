"""Check that VeRL and OpenRLHF train the language model in the same tier as TRL."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from prompt_coevo.demo.world import World, base_path

METHODS = Path(__file__).parents[2] / "benchmarks" / "methods"


@pytest.fixture
def tier(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """Load the tier and the world with a policy too small to learn."""
    model = shutil.copytree(base_path(World()), tmp_path / "model")
    monkeypatch.setenv("COEVO_MODEL", str(model))
    monkeypatch.setenv("COEVO_ROLLOUTS", "32")
    monkeypatch.syspath_prepend(str(METHODS))
    importlib.reload(importlib.import_module("effect_language"))
    importlib.reload(importlib.import_module("effect_worlds"))
    return importlib.reload(importlib.import_module("language_model"))


def test_questions_values_and_arms_are_the_tiers(tier: ModuleType) -> None:
    from effect import Job
    from effect_worlds import WORLDS

    for draw in tier.DRAWS:
        name = "unnamed" if draw == 0 else f"unnamed-{draw}"
        world = WORLDS[name]
        training = tier.questions(draw).training
        job = Job(name, "stream", 0, world.epochs, world.questions)
        assert list(world.training(0, world.questions)) == [
            (task.question, task.answer) for task in training
        ]
        assert job.steps * job.rollouts == tier.BUDGET
        assert [step * job.rollouts for step in job.saved] == [704, 1408, 2112, 2816]
        common = tier.frozen()["stream"]["common"]
        short = {name: world.trainer[name] for name in world.trainer if name != "max_steps"}
        assert short.items() <= common["trainer"].items()
        assert set(common["trainer"]) - set(short) == {"max_steps", "use_cpu"}
        assert common["points"][0] == world.points
        for arm, values in world.arms.items():
            assert values == tier.frozen()[arm]["values"]
        assert world.about() == {"draw": draw, "model": tier.fingerprint(tier.MODEL)}


def test_the_teacher_is_the_tiers(tier: ModuleType) -> None:
    from effect_worlds import WORLDS

    from prompt_coevo.demo.unnamed.teachers import teacher

    theirs, ours = teacher("reader", 3), WORLDS["unnamed"].teacher(3)
    asked = [f"<question>\n{question}" for question, _ in WORLDS["unnamed"].training(0, 88)]
    assert [ours(one) for one in asked] == [theirs(one) for one in asked]


def test_scores_are_the_tiers(tier: ModuleType) -> None:
    from effect_worlds import WORLDS

    run = tier.run("unnamed", "grpo", 0, 1)
    scores = WORLDS["unnamed-1"].score([Path(tier.MODEL)], 0, 88)
    assert set(scores["curve"]) - {"plain"} == set(run["curve"])
    for family, curve in run["curve"].items():
        assert scores["curve"][family] == [curve[0]] * 2
    assert {name: found[:2] for name, found in run["words"].items()} == {
        name: found[:2] for name, found in scores["words"].items()
    }
    assert {name: said[0] for name, said in run["said"].items()} == {
        name: said[0] for name, said in scores["said"].items()
    }
    assert all(before == after for before, after in scores["said"].values())


def test_the_policys_folder_is_the_model_with_the_tiers_layout(
    tier: ModuleType, tmp_path: Path
) -> None:
    from effect_worlds import WORLDS

    model, layout = Path(tier.MODEL), "chat_template.jinja"
    own = "{# named SmolLM, trained by Hugging Face #}" + (model / layout).read_text("utf-8")
    (model / layout).write_text(own, "utf-8")
    folder = WORLDS["unnamed"].base(tmp_path / "policy")
    assert (folder / layout).read_text("utf-8") == tier.CHAT
    assert (model / layout).read_text("utf-8") == own
    for file in model.iterdir():
        if file.name != layout:
            assert (folder / file.name).read_bytes() == file.read_bytes()


def test_without_a_model_it_says_how_to_get_one(
    tier: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COEVO_MODEL", str(tmp_path / "nowhere"))
    language = importlib.reload(importlib.import_module("effect_language"))
    with pytest.raises(
        SystemExit, match=r"no model in .*nowhere: make it with prompt-coevo smollm2"
    ):
        language.policy(tmp_path / "policy")
