"""Check question libraries: docs/examples for reasoning-gym and verifiers, unchanged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import reasoning_gym

from helpers.documented import ROOT
from helpers.trl_scripts import SMALL, Ran, Said, check_that_it_works

EXAMPLES = ROOT / "docs" / "examples"
QUESTIONS = 8
SEED = 42  # the trainer's default
TASKSET = """
import verifiers.v1 as vf

class Data(vf.TaskData):
    answer: int

class Task(vf.Task[Data]):
    @vf.reward
    async def exact(self, trace: vf.Trace) -> float:
        return float(trace.last_reply.endswith(str(self.data.answer)))

    @vf.reward(weight=0.1)
    async def brief(self, trace: vf.Trace) -> float:
        assert trace.messages[0].content == self.data.prompt
        return float(len(trace.messages[-1].content) < 10)

class Config(vf.TasksetConfig):
    most: int = 4

class Sums(vf.Taskset[Task, Config]):
    def load(self):
        for n in range(self.config.most):
            yield Task(Data(prompt=f"What is {n} and {7 - n}?", answer=7), self.config.task)

__all__ = ["Sums"]
"""

pytestmark = pytest.mark.usefixtures("as_on_the_hub")


def run_example(name: str, arguments: dict[str, object], said: Said) -> Ran:
    """Run the script with and without its `attach` line; TRL's parser gives every option of the config."""
    text = (EXAMPLES / name).read_text("utf-8")
    lines = text.splitlines()
    without = [line for line in lines if not line.lstrip().startswith("attach(trainer")]
    assert len(without) == len(lines) - 1
    given = {
        "model": "Qwen/Qwen3-0.6B",
        "reflection_model": "openai/gpt-5",
        "output_dir": "out",
        "num_train_epochs": 3,
        **SMALL,
        **arguments,
    }
    words = [word for key, value in given.items() for word in (f"--{key}", *str(value).split())]
    return check_that_it_works("\n".join(without), text, arguments=words, said=said)


def another_answer(family: str) -> Said:
    """Return another question's answer, or none: partial credit, never a success."""
    answer = reasoning_gym.create_dataset(family, size=QUESTIONS + 1, seed=SEED)[QUESTIONS][
        "answer"
    ]
    return lambda call, row: "I do not know" if row % 4 == 3 else f"<answer>{answer}</answer>"


@pytest.mark.parametrize(
    ("family", "credit"),
    [
        ("game_of_life", (0.6, 0.8)),  # three of four get some .93
        ("mini_sudoku", (0.1, 0.6)),
        ("countdown", (0.01, 0.06)),  # .01 for any attempt, .05 for an equation
        ("sentence_reordering", (0.01, 0.06)),
        ("palindrome_generation", (0.01, 0.06)),
        ("propositional_logic", (0.0, 0.0)),  # its answer is None: there is no text to show
    ],
)
def test_partial_credit_of_reasoning_gym_is_no_success(
    family: str, credit: tuple[float, float], tmp_path: Path
) -> None:
    arguments = {"families": family, "questions": QUESTIONS}
    ran = run_example("reasoning_gym_grpo.py", arguments, another_answer(family))
    rewards = ran.logged("reward")
    assert credit[0] <= sum(rewards) / len(rewards) <= credit[1]
    assert ran.metric("hard_samples")[-1] == QUESTIONS
    assert ran.metric("solved_untemplated")[-1] == 0


def test_families_are_mixed() -> None:
    families = ("chain_sum", "propositional_logic")
    arguments = {"families": " ".join(families), "questions": 4}
    ran = run_example("reasoning_gym_grpo.py", arguments, another_answer("chain_sum"))
    assert ran.metric("hard_samples")[-1] == 8


def test_a_taskset_of_verifiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sums_v1.py").write_text(TASKSET, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sums_v1", raising=False)

    def said(call: int, row: int) -> str:
        return "7" if row % 8 == call % 8 else ("It may be 6, it may be 5.", "It is 1.")[row % 2]

    ran = run_example("verifiers_taskset.py", {"taskset": "sums-v1", "truth": "answer"}, said)
    assert max(ran.metric("hard_samples")) == 4
    journal = (tmp_path / "out" / "coevo" / "events.jsonl").read_text("utf-8")
    keys = ran.trainer.train_dataset["key"]
    assert len(set(keys)) == 4
    assert any(key in journal for key in keys)
