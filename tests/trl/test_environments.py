"""Check environments in the real trainer: a question is known after `reset()`, and may be named there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from helpers.byte_model import byte_model, qwen3_tokenizer
from helpers.trl_runs import P2O, events
from helpers.trl_versions import since
from prompt_coevo.adapters.trl import attach
from prompt_coevo.errors import DatasetError, HostError

pytestmark = since("1.16", "environments that own the data")
GAME: list[dict[str, Any]] = [{"role": "user", "content": "Play like an expert."}]
ROWS = [{"prompt": GAME, "seed": n % 6} for n in range(24)]
UNREAD = {"preflight": {"reflection": "off"}}


class Quiz:
    """Ask the question of the row's seed."""

    def reset(self, seed: int = 0, **_: Any) -> str:
        return f" What is {seed}?"


class NamedQuiz(Quiz):
    """Quiz, which says what it asked."""

    question_id: str | None = None

    def reset(self, seed: int = 0, **row: Any) -> str:
        self.question_id = f"seed {seed}"
        return super().reset(seed, **row)


class OwnQuiz(Quiz):
    """A quiz that has its name from the constructor on."""

    def __init__(self) -> None:
        self.question_id: Any = None

    def reset(self, seed: int = 0, **_: Any) -> str:
        self.question_id = f"seed {seed}"
        return super().reset(seed)


class PropertyQuiz(Quiz):
    """A quiz that names its question by a property, as a subclass of a third-party environment may."""

    _seed: int | None = None

    def reset(self, seed: int = 0, **_: Any) -> str:
        self._seed = seed
        return super().reset(seed)

    @property
    def question_id(self) -> int:
        if self._seed is None:
            raise RuntimeError("not reset yet")
        return self._seed


def failing(completions: Any, **_: Any) -> list[float]:
    """Reward no answer fully, and give groups a spread."""
    return [0.1 * (n % 2) for n, _ in enumerate(completions)]


def make(
    folder: Path,
    environment: Any = Quiz,
    dataset: Any = ROWS,
    steps: int = 6,
    reward: Any = failing,
    **options: Any,
) -> Any:
    tokenizer = qwen3_tokenizer()
    trainer = GRPOTrainer(
        model=byte_model(tokenizer),
        reward_funcs=reward,
        args=GRPOConfig(
            output_dir=str(folder / "out"),
            per_device_train_batch_size=4,
            num_generations=2,
            max_completion_length=20,
            max_steps=steps,
            use_cpu=True,
            bf16=False,
            report_to="none",
            logging_steps=1,
            disable_tqdm=True,
            shuffle_dataset=False,
            chat_template_kwargs={"enable_thinking": False},
            **{"save_strategy": "no", **options},
        ),
        train_dataset=None if dataset is None else Dataset.from_list(dataset),
        processing_class=tokenizer,
        environment_factory=environment,
    )

    trainer.sampled_after = []

    def scripted(prompt_ids: Any, *_: Any, **__: Any) -> Any:
        trainer.sampled_after += [tokenizer.decode(ids) for ids in prompt_ids]
        return [tokenizer("It is 3.<|im_end|>")["input_ids"] for _ in prompt_ids], None

    trainer._generate_single_turn = scripted
    return trainer


def teacher(asked: list[str], reply: str = "<template>Count.</template>") -> Callable[[str], str]:
    def write(prompt: str) -> str:
        asked.append(prompt)
        return reply

    return write


def last(trainer: Any, name: str) -> float:
    found: list[float] = [
        one[f"coevo/{name}"] for one in trainer.state.log_history if f"coevo/{name}" in one
    ]
    return found[-1]


CANNOT = (
    r"known after its reset\(\) alone, and the training dataset has 1 question in \d+ rows?, so .*"
)
ROUTES = [{"environment": name} for name in ("one", "two") * 12]


@pytest.mark.parametrize(
    ("environment", "dataset", "said"),
    [
        (Quiz, ROWS, CANNOT),
        (Quiz, None, CANNOT),
        ({"one": Quiz, "two": Quiz}, ROUTES, "2 questions in 24 rows"),
        ({"one": Quiz, "two": NamedQuiz}, ROUTES, "2 questions in 24 rows"),
    ],
)
@pytest.mark.parametrize("method", ["stream", "p2o"])
def test_methods_for_hard_questions_refuse_what_they_cannot_tell_apart(
    tmp_path: Path, environment: Any, dataset: Any, said: str, method: str
) -> None:
    trainer = make(tmp_path, environment, [*dataset] if dataset else None)
    if dataset is ROWS:
        trainer.train_dataset = trainer.train_dataset.remove_columns("seed")
    with pytest.raises(HostError, match=f"{said}.*{method} cannot know.*question_id") as refused:
        attach(trainer, algorithms=method, reflection={"function": len})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("environment", "dataset"),
    [(Quiz, ROWS), (NamedQuiz, None), ({"one": Quiz, "two": Quiz}, ROUTES)],
)
def test_inspo_works_with_environments_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, environment: Any, dataset: Any
) -> None:
    trainer = make(tmp_path, environment, dataset)
    inspo = {"instruction": "Think.", "paraphrase": False, "evolve_every": 2, "verify_size": 2}
    better = "<ins_1>Think twice.</ins_1>"
    asked: list[str] = []
    with caplog.at_level(logging.WARNING, logger="prompt_coevo"):
        attach(
            trainer,
            algorithms="inspo",
            inspo=inspo,
            reflection={"function": teacher(asked, better)},
        )
        trainer.train()
    assert last(trainer, "verify_rollouts") > 0
    assert last(trainer, "evolutions") > 0
    assert "plugin_error" not in [one["event"] for one in events(trainer)]
    assert all("Think" in prompt for prompt in trainer.sampled_after)
    if dataset == ROUTES:
        assert "24 rows are 2 questions" in caplog.text


NAMED = {
    "attribute": (NamedQuiz, ROWS, {f"seed {n}" for n in range(6)}),
    "constructor": (OwnQuiz, ROWS, {f"seed {n}" for n in range(6)}),
    "property": (PropertyQuiz, ROWS, {str(n) for n in range(6)}),
    "no prompt": (NamedQuiz, [{"seed": n % 6} for n in range(24)], {f"seed {n}" for n in range(6)}),
    "a dict": (
        {"one": NamedQuiz, "two": PropertyQuiz},
        [{"environment": ("one", "two")[n % 2], "seed": n % 6} for n in range(24)],
        {"seed 0", "1", "seed 2", "3", "seed 4", "5"},
    ),
}


@pytest.mark.parametrize("kept", [True, False])
def test_the_right_answer_is_what_a_transform_leaves(tmp_path: Path, kept: bool) -> None:
    trainer = make(tmp_path, Quiz, [{**row, "n": n, "answer": "3"} for n, row in enumerate(ROWS)])

    def transform(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {name: values for name, values in batch.items() if kept or name != "answer"}

    trainer.train_dataset = trainer.train_dataset.with_transform(transform)
    callback = attach(trainer, question_id_column="n", reflection={"function": teacher([])})
    assert callback.policy.question("0").ground_truth == ("3" if kept else None)


def test_a_forecast_counts_the_rows(tmp_path: Path) -> None:
    trainer = make(tmp_path, NamedQuiz)
    attach(trainer, algorithms="p2o", p2o=P2O, reflection={"function": teacher([])})
    trainer.train()
    (told,) = [one["lines"] for one in events(trainer) if one["event"] == "preflight"]
    forecast = [line["text"] for line in told if line["topic"] == "forecast"]
    assert "an epoch is 24 questions × 2 = 48 training rollouts; the run has 6 steps" in forecast
    assert not [text for text in forecast if "no search will ever happen" in text]


@pytest.mark.parametrize("case", NAMED)
def test_a_question_is_what_the_environment_names(tmp_path: Path, case: str) -> None:
    environment, dataset, ids = NAMED[case]
    trainer = make(tmp_path, environment, dataset, steps=12)
    asked: list[str] = []
    callback = attach(trainer, reflection={"function": teacher(asked)})
    trainer.train()
    assert set(callback.policy.question_ids()) - {"not asked yet"} == ids
    assert last(trainer, "hard_samples") == 6
    texts = {callback.policy.question(one).prompt[-1]["content"] for one in ids}
    start = "Play like an expert." if "prompt" in dataset[0] else ""
    assert texts == {f"{start} What is {n}?" for n in range(6)}
    assert any("What is 1?" in one for one in asked)
    assert any("Count." in one for one in trainer.sampled_after)
    assert "plugin_error" not in [one["event"] for one in events(trainer)]


def test_a_column_of_ids_comes_before_the_environments_name(tmp_path: Path) -> None:
    trainer = make(tmp_path, NamedQuiz, [{**row, "n": n} for n, row in enumerate(ROWS)])
    callback = attach(trainer, question_id_column="n", reflection={"function": len}, **UNREAD)
    assert len(callback.policy.question_ids()) == 24
    trainer.train()


@pytest.mark.parametrize("name", [None, 1.5, True])
def test_an_environment_that_names_nothing(tmp_path: Path, name: Any) -> None:
    class Unnamed(OwnQuiz):
        def reset(self, seed: int = 0, **_: Any) -> str:
            self.question_id = name
            return " ?"

    trainer = make(tmp_path, Unnamed)
    attach(trainer, reflection={"function": len})
    with pytest.raises(HostError, match=f"Unnamed has question_id = {name} after reset"):
        trainer.train()


def test_one_id_for_two_texts(tmp_path: Path) -> None:
    class Forgetful(NamedQuiz):
        def reset(self, seed: int = 0, **_: Any) -> str:
            self.question_id = "always this"
            return f" What is {seed}?"

    trainer = make(tmp_path, Forgetful)
    attach(trainer, reflection={"function": len})
    with pytest.raises(DatasetError, match="'always this' stands for two different questions"):
        trainer.train()


def test_a_group_that_is_asked_several_questions(tmp_path: Path) -> None:
    class Shuffled(NamedQuiz):
        asked = 0

        def reset(self, **_: Any) -> str:
            Shuffled.asked += 1
            return super().reset(Shuffled.asked)

    trainer = make(tmp_path, Shuffled, None)
    attach(trainer, reflection={"function": len})
    with pytest.raises(HostError, match=r"2 rollouts of one question.*reset\(\) must ask one"):
        trainer.train()


def search(trainer: Any, asked: list[str]) -> Any:
    sizes = {"dev_size": 2, "minibatch_size": 2, "search_budget": 12}
    return attach(
        trainer,
        algorithms="p2o",
        p2o={**P2O, **sizes},
        reflection={"function": teacher(asked)},
    )


def test_a_search_leads_an_environment_to_the_same_question_again(tmp_path: Path) -> None:
    seen: list[Any] = []

    class Strict(NamedQuiz):
        """Accept only a row's own columns."""

        def reset(self, prompt: Any, seed: int) -> str:  # type: ignore[override]
            seen.append(prompt)
            return super().reset(seed)

    trainer = make(tmp_path, Strict, steps=14)
    asked: list[str] = []
    search(trainer, asked)
    trainer.train()
    assert asked
    assert last(trainer, "search_rollouts") > 0
    assert all(one == GAME for one in seen)
    told = [one["event"] for one in events(trainer)]
    assert "plugin_error" not in told
    assert "templates_assigned" in told


def test_a_search_whose_environment_asks_something_else_ends_and_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Moody(NamedQuiz):
        """Ask the row's question in training, and others outside training."""

        def reset(self, seed: int = 0, **_: Any) -> str:
            return super().reset(seed if trainer.model.training else seed + 100)

    trainer = make(tmp_path, Moody, steps=14)
    search(trainer, [])
    with caplog.at_level(logging.WARNING, logger="prompt_coevo"):
        trainer.train()
    assert trainer.state.global_step == 14
    assert "reset() must ask the same of the same row" in caplog.text


def test_a_resumed_run_knows_the_questions_that_were_asked(tmp_path: Path) -> None:
    saves = {"save_strategy": "steps", "save_steps": 3}
    trainer = make(tmp_path, NamedQuiz, steps=3, **saves)
    attach(trainer, reflection={"function": teacher([])})
    trainer.train()
    again = make(tmp_path / "again", NamedQuiz, steps=4)
    callback = attach(again, reflection={"function": teacher([])})
    again.train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-3"))
    assert {f"seed {n}" for n in range(6)} <= set(callback.policy.question_ids())
    assert last(again, "hard_samples") == 6


def test_questions_of_a_dataset_stay_what_they_were(tmp_path: Path) -> None:
    """The environment only adds to questions that the rows already distinguish."""
    rows = [{"id": f"q{n}", "prompt": GAME, "seed": n, "answer": str(n)} for n in range(4)]
    trainer = make(tmp_path, Quiz, rows)
    callback = attach(trainer, question_id_column="id", reflection={"function": len}, **UNREAD)
    assert callback.policy.question_ids() == ["q0", "q1", "q2", "q3"]
    assert callback.policy.question("q2").ground_truth == "2"
    trainer.train()
    assert last(trainer, "hard_samples") == 4
