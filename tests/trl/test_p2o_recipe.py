"""Check P2O's recipe: the data for all trainers, made from rows like the public ones, and the reward.

`datasets` reads the rows from folders with the names of the public datasets.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest

from helpers.documented import ROOT
from helpers.example_scripts import EXAMPLES

pytest.importorskip("math_verify")
DEEPSCALER = [
    {"problem": f"What is {n} + {n}?", "answer": str(2 * n), "solution": "Add them."}
    for n in range(6)
] + [
    {"problem": "Which side?", "answer": r"5 \sqrt{2}", "solution": "Pythagoras."},
    {"problem": "Nobody knows.", "answer": "", "solution": ""},
]
DEEPMATH = [
    {
        "question": f"Is {n} prime?",
        "final_answer": ["No", "Yes"][n in (2, 3, 5, 7)],
        "difficulty": 5.0 + n / 2,
        "topic": "Mathematics -> Number Theory",
        **{f"r1_solution_{k}": "It is, or it is not." for k in (1, 2, 3)},
    }
    for n in range(9)
]
PUBLIC: dict[str, list[dict[str, Any]]] = {
    "agentica-org/DeepScaleR-Preview-Dataset/train": DEEPSCALER,
    "zwhe99/DeepMath-103K/train": DEEPMATH,
    "HuggingFaceH4/aime_2024/train": [
        {"id": 60, "problem": "a24?", "answer": "204", "year": "2024"}
    ],
    "math-ai/aime25/test": [{"id": "0", "problem": "a25?", "answer": "70"}],
    "math-ai/amc23/test": [{"id": 0, "question": "amc?", "answer": "27.0"}],
    "HuggingFaceH4/MATH-500/test": [{"problem": "m?", "answer": r"\frac{1}{2}", "level": 2}],
    "math-ai/minervamath/test": [{"question": "min?", "answer": "4.5e33"}],
    "math-ai/olympiadbench/test": [{"question": "oly?", "final_answer": ["2", "3"]}],
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("public")
    for name, rows in PUBLIC.items():
        path = folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


@pytest.fixture(scope="module")
def deepscaler(here: Path) -> Path:
    """Run the command."""
    out = here / "out"
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "p2o_data.py"), "deepscaler", "--out", str(out)],
        cwd=here,
        env={**os.environ, "HF_HOME": str(here / "cache"), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    (out / "said").write_text(done.stdout)
    return out


@pytest.fixture
def drawn(here: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Call the command's function that draws questions."""
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", here / "cache")
    function: Callable[..., list[dict[str, Any]]] = runpy.run_path(str(EXAMPLES / "p2o_data.py"))[
        "drawn"
    ]
    return function


def test_a_question_whose_answer_cannot_be_checked_is_left_out(deepscaler: Path) -> None:
    said = (deepscaler / "said").read_text()
    assert said == "deepscaler: 7 questions; left out 1 whose answer cannot be checked\n"


def test_verls_rows(deepscaler: Path) -> None:
    rows = pd.read_parquet(deepscaler / "verl" / "train.parquet").to_dict("records")
    answers = {row["reward_model"]["ground_truth"] for row in rows}
    assert answers == {"0", "2", "4", "6", "8", "10", r"5 \sqrt{2}"}
    assert {row["data_source"] for row in rows} == {"deepscaler"}
    (prompt,) = next(row["prompt"] for row in rows if row["reward_model"]["ground_truth"] == "4")
    assert prompt["role"] == "user"
    assert prompt["content"].startswith("What is 2 + 2?\nPlease reason step by step")


def test_openrlhfs_rows_are_the_same(deepscaler: Path) -> None:
    verl = pd.read_parquet(deepscaler / "verl" / "train.parquet")
    rows = pd.read_json(deepscaler / "openrlhf" / "train.jsonl", lines=True, dtype=False)
    assert list(rows["label"]) == [one["ground_truth"] for one in verl["reward_model"]]
    assert list(rows["prompt"]) == [chat[0]["content"] for chat in verl["prompt"]]


def test_trls_script_makes_the_same_prompts_of_its_rows(deepscaler: Path, here: Path) -> None:
    rows = datasets.load_dataset(
        str(deepscaler / "trl"), split="train", cache_dir=str(here / "cache")
    )
    as_chat = runpy.run_path(str(EXAMPLES / "trl_p2o.py"))["as_chat"]
    verl = pd.read_parquet(deepscaler / "verl" / "train.parquet")
    assert [as_chat(row)["prompt"] for row in rows] == [list(chat) for chat in verl["prompt"]]


def test_deepmath_is_cut_at_its_difficulty(drawn: Any) -> None:
    asked = sorted(row["question"] for row in drawn("deepmath", 5000, seed=0))
    assert asked == [f"Is {n} prime?" for n in (4, 5, 6, 7, 8)]  # 7.0 and more


def test_the_subset_is_drawn_by_the_seed(drawn: Any) -> None:
    first, again, other = (drawn("deepscaler", 4, seed=seed) for seed in (0, 0, 1))
    assert len(first) == 4
    assert first == again != other


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("test_small", {"aime24": "204", "aime25": "70", "amc23": "27.0"}),
        ("test_large", {"math500": r"\frac{1}{2}", "minerva": "4.5e33", "olympiad": "2, 3"}),
    ],
)
def test_the_papers_test_sets(deepscaler: Path, name: str, answers: dict[str, str]) -> None:
    verl = pd.read_parquet(deepscaler / "verl" / f"{name}.parquet")
    truths = [one["ground_truth"] for one in verl["reward_model"]]
    assert dict(zip(verl["data_source"], truths, strict=True)) == answers


@pytest.mark.parametrize(
    ("response", "answer", "reward"),
    [
        (r"So it is \boxed{\frac12}.", "0.5", 1),
        (r"So it is \boxed{7}.", "0.5", 0),
        ("So it is $5$.", "5", 0),  # the format is a box
        (r"\boxed{", "5", 0),
        (r"\boxed{5\sqrt{2}}", r"5 \sqrt{2}", 1),
        (r"\boxed{5}", r"5 \sqrt{2}", 0),
        (r"\boxed{\text{No}}", "No", 1),
        (r"\boxed{9^{9^{9^9}}}", "5", 0),  # in seconds, although nobody can compute it
    ],
)
def test_the_reward_is_the_same_for_both_trainers(
    response: str, answer: str, reward: float
) -> None:
    module = reward_module()
    assert module["compute_score"]("deepscaler", response, answer) == reward
    prompt = "<|im_start|>user\nHow many? For example \\boxed{5}<|im_end|>\n"
    got = module["reward_func"]([prompt + response + "<|im_end|>"], [prompt], [answer])
    assert got["rewards"].tolist() == got["scores"].tolist() == [reward]


def test_processes_that_are_killed_cost_no_reward() -> None:
    score = reward_module()["compute_score"]
    assert score("deepscaler", r"\boxed{5}", "5") == 1
    for process in list(score.__globals__["POOL"]._processes.values()):
        process.kill()
        process.join()
    assert score("deepscaler", r"\boxed{5}", "5") == 1


def test_trls_reward_is_the_same() -> None:
    from trl.rewards import accuracy_reward

    as_chat = runpy.run_path(str(EXAMPLES / "trl_p2o.py"))["as_chat"]
    rows = [as_chat(row) for row in [*DEEPSCALER[:-1], DEEPMATH[0]]]
    said = [
        [{"role": "assistant", "content": f"It is $\\boxed{{{row['answer']}}}$."}] for row in rows
    ]
    assert accuracy_reward(said, [row["solution"] for row in rows]) == [1.0] * len(rows)


_MODULE: dict[str, Any] = {}


def reward_module() -> dict[str, Any]:
    """Load the file once, as the trainers do: from its path, under a name of their own."""
    if not _MODULE:
        _MODULE.update(runpy.run_path(str(ROOT / "docs" / "examples" / "p2o_reward.py")))
    return _MODULE
