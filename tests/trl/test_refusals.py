"""Check that what cannot work is refused when the callback is made, with one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import Trainer, TrainerCallback, TrainingArguments

from helpers.trl_world import rows
from prompt_coevo import hookimpl
from prompt_coevo.adapters.trl import CoevoCallback, attach
from prompt_coevo.errors import DatasetError, HostError, SettingsError
from prompt_coevo.types import Candidate, MemberPlan

NOTHING = {"algorithms": ()}


def changed(**changes: Any) -> list[dict[str, Any]]:
    return [{**row, **changes} for row in rows()]


IMAGE = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "why?"}]}]


@pytest.mark.parametrize(
    ("dataset", "settings", "message"),
    [
        (
            rows(),
            {"question_id_column": "uid"},
            r"no column 'uid' \(question_id_column\); it has: id,",
        ),
        (changed(prompt=IMAGE), {}, "row 0 of the training dataset has a prompt with images"),
    ],
)
def test_datasets_that_cannot_be_used(
    make_trainer: Any, dataset: Any, settings: dict[str, Any], message: str
) -> None:
    trainer = make_trainer(dataset=dataset)
    with pytest.raises(DatasetError, match=message) as raised:
        CoevoCallback(trainer, NOTHING | settings)
    assert "\n" not in str(raised.value)


def test_an_empty_dataset(make_trainer: Any) -> None:
    trainer = make_trainer()
    trainer.train_dataset = trainer.train_dataset.select([])
    with pytest.raises(DatasetError, match="the training dataset is empty"):
        CoevoCallback(trainer, NOTHING)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stream": {"tau": 0}}, "stream.tau must be greater than 0"),
        ({"stream": {"taus": 1}}, "unknown setting stream.taus; did you mean stream.tau?"),
        (
            {"placement": {"template_layout": "{{question}}"}},
            "placeholder {{template}} exactly once",
        ),
        ({}, "no reflection model is set"),
        ({"algorithms": ("ppo",)}, "'ppo': there is no such method; did you mean p2o?"),
        (
            {"reflection": {"function": len}, "stream": {"proposer": "x"}},
            "'x': there is no such proposer; known: history",
        ),
        ({"algorithms": ("inspo",)}, "there is no instruction to start from"),
    ],
)
def test_bad_settings(make_trainer: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        attach(make_trainer(), settings)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_chats_for_a_tokenizer_without_a_chat_template(make_trainer: Any) -> None:
    trainer = make_trainer()
    trainer.processing_class.chat_template = trainer.chat_template = None
    with pytest.raises(HostError, match="are chats, and the tokenizer has no chat template"):
        CoevoCallback(trainer, NOTHING)
    CoevoCallback(make_trainer(dataset=rows(kind="text")), NOTHING)


def test_a_question_that_is_longer_than_the_models_context(make_trainer: Any) -> None:
    trainer = make_trainer()
    trainer.model.config.max_position_embeddings = 12
    with pytest.raises(HostError, match=r"the longest question has \d+ tokens and .* room for 12"):
        CoevoCallback(trainer, NOTHING)


def test_columns_that_are_hidden(make_trainer: Any) -> None:
    trainer = make_trainer(remove_unused_columns=True)
    with pytest.raises(HostError, match="takes answer, id out of the batches, so no question"):
        CoevoCallback(trainer, NOTHING)
    trainer.train_dataset = trainer.train_dataset.select_columns(["prompt"])
    CoevoCallback(trainer, NOTHING | {"ground_truth_column": None})


def test_an_output_directory_that_cannot_be_written_to(make_trainer: Any, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "coevo").write_text("in the way")
    with pytest.raises(SettingsError, match="cannot be written to"):
        CoevoCallback(make_trainer(), NOTHING)


def test_another_trainer(make_trainer: Any, tmp_path: Path) -> None:
    model = make_trainer().model
    trainer = Trainer(model, TrainingArguments(str(tmp_path), use_cpu=True, report_to="none"))
    with pytest.raises(
        HostError,
        match="works with GRPOTrainer and RLOOTrainer of TRL, not with transformers.trainer.Trainer",
    ):
        CoevoCallback(trainer, NOTHING)


def test_async_grpo_samples_where_nobody_can_reach() -> None:
    class AsyncGRPOTrainer: ...

    with pytest.raises(HostError, match="samples in a separate process"):
        CoevoCallback(AsyncGRPOTrainer(), NOTHING)


def test_a_vision_language_dataset(make_trainer: Any) -> None:
    trainer = make_trainer(dataset=changed(image=None))
    trainer._is_vlm = True
    with pytest.raises(HostError, match="the training dataset has images"):
        CoevoCallback(trainer, NOTHING)
    del trainer._is_vlm  # TRL 1.0 has no such name
    trainer.processing_class.tokenizer = trainer.processing_class
    with pytest.raises(HostError, match="the training dataset has images"):
        CoevoCallback(trainer, NOTHING)


@pytest.mark.parametrize("saves", [{"save_strategy": "epoch"}, {"enable_jit_checkpoint": True}])
def test_checkpoints_without_a_state(make_trainer: Any, saves: dict[str, Any]) -> None:
    trainer = make_trainer(save_only_model=True, **saves)
    with pytest.raises(HostError, match="save_only_model=True leaves .* out of checkpoints"):
        CoevoCallback(trainer, NOTHING)


def test_models_alone_may_be_saved_where_there_are_no_checkpoints(make_trainer: Any) -> None:
    CoevoCallback(make_trainer(save_only_model=True), NOTHING)


def test_a_callback_that_is_added_twice(make_trainer: Any) -> None:
    trainer = make_trainer()
    trainer.add_callback(attach(trainer, NOTHING))
    with pytest.raises(HostError, match="was added to this trainer 2 times; add it once"):
        trainer.train()
    assert trainer.state.global_step == 0


def test_a_callback_that_is_never_added(make_trainer: Any) -> None:
    trainer = make_trainer()
    CoevoCallback(trainer, NOTHING)
    with pytest.raises(HostError, match="built for this trainer and never added to it") as raised:
        trainer.train()
    assert trainer.state.global_step == 0
    assert "\n" not in str(raised.value)


def test_a_callback_in_another_trainer_than_its_own(make_trainer: Any) -> None:
    other = make_trainer()
    other.add_callback(CoevoCallback(make_trainer(), NOTHING))
    with pytest.raises(HostError, match="was built for another trainer"):
        other.train()
    assert other.state.global_step == 0


def test_a_callback_that_is_built_again_takes_the_first_ones_place(make_trainer: Any) -> None:
    trainer = make_trainer()
    first = attach(trainer, NOTHING)
    trainer.train()
    second = attach(trainer, {**NOTHING, "seed": 7})
    trainer.train()
    assert first not in trainer.callback_handler.callbacks
    assert first.engine.policy_version.step == 2  # what the second train() did is the second one's
    assert second.engine.policy_version.step == 2


def test_settings_that_are_refused_leave_the_callback_that_is_there(make_trainer: Any) -> None:
    trainer = make_trainer()
    first = attach(trainer, NOTHING)
    with pytest.raises(SettingsError):
        attach(trainer, {"stream": {"taus": 1}})
    trainer.train()
    assert first.engine.policy_version.step == 2


def test_a_callback_that_is_detached_leaves_nothing_behind(make_trainer: Any) -> None:
    trainer = make_trainer()
    before = dict(vars(trainer)), list(trainer.callback_handler.callbacks)
    callback = attach(trainer, {**NOTHING, "distill_forward": True})
    callback.detach()
    assert trainer.callback_handler.callbacks == before[1]
    assert vars(trainer).keys() == before[0].keys()
    trainer.train()
    assert trainer.state.global_step == 2
    assert callback.engine.policy_version.step == 0


def test_an_interrupted_run_asks_nothing_more_once_it_is_left(make_trainer: Any) -> None:
    asked: list[str] = []

    class Interrupts(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

    trainer = make_trainer()
    callback = attach(trainer, {"reflection": {"function": asked.append}})
    trainer.add_callback(Interrupts())
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    model = callback.engine.context.language_model()
    callback.detach()
    before = len(asked)
    assert "was given up" in str(model.complete(["a call of the background"])[0].error)
    assert len(asked) == before
    calls = Path(trainer.args.output_dir) / "coevo" / "calls.jsonl"
    assert json.loads(calls.read_text().splitlines()[-1])["event"] == "run_ended"


def test_a_trainer_that_somebody_else_has_wrapped_since_cannot_be_left(make_trainer: Any) -> None:
    trainer = make_trainer()
    callback = attach(trainer, NOTHING)
    ours = trainer._save_optimizer_and_scheduler
    trainer._save_optimizer_and_scheduler = lambda folder: ours(folder)
    with pytest.raises(HostError, match="something else has replaced its _save_optimizer"):
        callback.detach()


def test_a_sampler_that_breaks_the_groups(make_trainer: Any) -> None:
    trainer = make_trainer()
    trainer._get_train_sampler = lambda dataset=None: range(8)
    attach(trainer, NOTHING)
    with pytest.raises(HostError, match="should be 4 rollouts of one question"):
        trainer.train()


@pytest.mark.parametrize("kind", ["instruction", "template"])
@pytest.mark.parametrize("own", ["", "sum "])
def test_a_rollout_func_that_samples_on_the_dataset(make_trainer: Any, kind: str, own: str) -> None:
    """It looks up the question, or asks its own, so what is placed never reaches the policy."""

    class Placed:
        @hookimpl
        def coevo_plan_group(self, question_id: str, group_size: int) -> list[MemberPlan]:
            return [MemberPlan(**{kind: Candidate("note", kind)}, distill=False)] * group_size

    def rollout(prompts: Any, trainer: Any) -> dict[str, Any]:
        bare = [prompt[-1]["content"].removeprefix("note").strip() for prompt in prompts]
        questions = [[{"role": "user", "content": own + text}] for text in bare]
        ids = trainer._tokenize_prompts(questions)[0]
        return {"prompt_ids": ids, "completion_ids": [[9, 1]] * len(ids), "logprobs": None}

    trainer = make_trainer()
    trainer.rollout_func = rollout
    settings = {**NOTHING, "question_id_column": "id"}
    trainer.add_callback(CoevoCallback(trainer, settings, plugins={"placed": Placed()}))
    with pytest.raises(
        HostError, match="was sampled on a prompt without it, so none would ever reach the policy"
    ):
        trainer.train()


def test_chats_that_only_the_rollout_func_can_tokenize_are_trained_on(make_trainer: Any) -> None:
    class Placed:
        @hookimpl
        def coevo_plan_group(self, question_id: str, group_size: int) -> list[MemberPlan]:
            return [MemberPlan(instruction=Candidate("note", "instruction"))] * group_size

    seen: list[str] = []

    def rollout(prompts: Any, trainer: Any) -> dict[str, Any]:
        seen.extend(prompt[0]["content"] for prompt in prompts)
        size = len(prompts)
        return {"prompt_ids": [[7, 8]] * size, "completion_ids": [[9, 1]] * size, "logprobs": None}

    trainer = make_trainer(max_steps=1)
    trainer.rollout_func = rollout
    trainer.processing_class.chat_template = trainer.chat_template = None
    settings = {**NOTHING, "question_id_column": "id"}
    trainer.add_callback(CoevoCallback(trainer, settings, plugins={"placed": Placed()}))
    trainer.train()
    assert seen
    assert all(text.startswith("note") for text in seen)


def test_a_rollout_func_with_a_tokenisation_of_its_own(make_trainer: Any) -> None:
    from helpers.trl_world import FixedTemplates

    def rollout(prompts: Any, trainer: Any) -> dict[str, Any]:
        size = len(prompts)
        return {"prompt_ids": [[7, 8]] * size, "completion_ids": [[9, 1]] * size, "logprobs": None}

    trainer = make_trainer()
    trainer.rollout_func = rollout
    plugin = FixedTemplates({f"q{n}": ["note"] for n in range(8)})
    trainer.add_callback(
        CoevoCallback(
            trainer, {**NOTHING, "question_id_column": "id"}, plugins={"templates": plugin}
        )
    )
    with pytest.raises(HostError, match="differ from the trainer's own tokenisation"):
        trainer.train()
