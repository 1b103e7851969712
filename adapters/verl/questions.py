"""VeRL's dataset, indexed as questions, and the engine on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from omegaconf import DictConfig
from transformers import PretrainedConfig
from verl.utils.dataset.rl_dataset import RLHFDataset

from prompt_coevo.adapters.common.columns import index_named, missing_column
from prompt_coevo.adapters.common.length_gate import check_questions
from prompt_coevo.adapters.common.open_engine import open_engine
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.common.rows import Row, rows_of
from prompt_coevo.adapters.verl.checks import agent_loops, prompt_limit
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import DatasetError
from prompt_coevo.placement import Message
from prompt_coevo.settings import Settings
from prompt_coevo.tokens import Tokenizer

_ROLLOUTS: Final = "__rollout_n__"
"""The column with which a row overrides VeRL's number of rollouts."""


def open_on(
    dataset: RLHFDataset,
    config: DictConfig,
    settings: Settings,
    output_dir: Path | None,
    tokenizer: Tokenizer,
    model_config: PretrainedConfig,
) -> tuple[QuestionIndex, Coevolution]:
    """Index the training dataset and build the engine on it. Raises DatasetError, or HostError for a
    question that is too long, and whatever `open_engine` raises."""
    part = config.actor_rollout_ref
    questions = index_questions(dataset, settings, agent_loops(config), part.rollout.n)
    limit = prompt_limit(config, tokenizer, dataset)
    check_questions(questions, limit)
    engine = open_engine(
        "verl",
        settings,
        questions,
        limit,
        output_dir=output_dir,
        tokenizer=tokenizer,
        model_config=model_config,
        initial_policy=part.model.path,
    )
    return questions, engine


def index_questions(
    dataset: RLHFDataset, settings: Settings, agent_loops: Collection[str], group_size: int
) -> QuestionIndex:
    """Index the questions of an RLHFDataset.

    `extra_info.index` is 0 for every row that has none, so without `question_id_column` questions are
    identified by their content. A column named by the settings is looked up in the row, then in its
    `extra_info`. `agent_loops` are the names that a row's `agent_name` may have, and `group_size` is the
    only number of rollouts that it may ask for. Raises DatasetError.
    """

    def check(row: Row, number: int) -> None:
        name = row.get("agent_name")
        if name is not None and name not in agent_loops:
            raise DatasetError(
                f"row {number} of the training dataset asks for the agent loop {name!r}, which is not "
                f"registered; known: {', '.join(sorted(agent_loops))}"
            )
        rollouts = row.get(_ROLLOUTS, group_size)
        if rollouts != group_size:
            raise DatasetError(
                f"row {number} of the training dataset asks for {rollouts} rollouts ({_ROLLOUTS}), and "
                f"+coevo plans groups of actor_rollout_ref.rollout.n={group_size}; leave the column out"
            )

    return index_named(
        dataset,
        settings,
        _value,
        prompt=lambda row: [_without_opened(message) for message in row["raw_prompt"]],
        usual_truth=_truth,
        check=check,
        scan=_rows(dataset),
    )


def _rows(dataset: RLHFDataset) -> Iterator[Row] | None:
    """Return the rows as VeRL would, without its costly parts (benchmarks/index.py). Return None for the
    user's own dataset class (`data.custom_cls`), which defines its rows itself.
    """
    if type(dataset) is not RLHFDataset:
        return None
    media = [dataset.image_key, dataset.video_key, dataset.audio_key]

    def rows() -> Iterator[Row]:
        for number, row in enumerate(rows_of(dataset.dataframe)):
            has_media = any(row.get(key) for key in media)
            yield dataset[number] if has_media else _with_usual_columns(row, dataset.prompt_key)

    return rows()


def _without_opened(message: Message) -> Message:
    """Return a message as the dataset stores it, without the opened image that VeRL adds to its bytes."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": [_as_stored(part) for part in content]}


def _as_stored(part: object) -> object:
    if not isinstance(part, Mapping) or "bytes" not in part:
        return part
    return {name: value for name, value in part.items() if name != "image"}


def _with_usual_columns(row: Row, prompt_key: str) -> Row:
    extra = row.get("extra_info") or {}
    return {
        **row,
        "raw_prompt": row[prompt_key],
        "extra_info": extra,
        "index": extra.get("index", 0),
        "tools_kwargs": extra.get("tools_kwargs", {}),
        "interaction_kwargs": extra.get("interaction_kwargs", {}),
    }


def _truth(row: Row) -> object:
    reward_model = row.get("reward_model")
    if not isinstance(reward_model, Mapping) or "ground_truth" not in reward_model:
        raise DatasetError(
            "the training dataset has rows without reward_model.ground_truth; set "
            "coevo.ground_truth_column to the column with the right answer, or to null if there "
            "is none"
        )
    return reward_model["ground_truth"]


def _value(row: Row, column: str, setting: str) -> object:
    for place in (row, row.get("extra_info") or {}):
        if column in place:
            return place[column]
    raise missing_column(column, row, f" (coevo.{setting}), and no extra_info of that name")
