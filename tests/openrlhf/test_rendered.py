"""Check rows whose prompts are rendered chats, where OpenRLHF applies no chat template."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from datasets import Dataset
from transformers import AutoTokenizer

from prompt_coevo.adapters.openrlhf.questions import CoevoPromptDataset
from prompt_coevo.placement import question_text
from prompt_coevo.settings import Settings
from prompt_coevo.types import Assignment, Candidate
from worlds.pairs.world import base_policy_path

CHAT = [{"role": "user", "content": "what is bad of bam"}]
HINT = Assignment("q", template=Candidate("think of bam .", "template"))


def dataset_of(
    tokenizer: Any,
    prompt: str,
    apply_chat_template: bool = False,
    input_template: str | None = None,
) -> CoevoPromptDataset:
    data = SimpleNamespace(
        input_key="input",
        label_key="label",
        apply_chat_template=apply_chat_template,
        image_key=None,
        max_images_per_prompt=0,
    )
    host = SimpleNamespace(
        args=SimpleNamespace(data=data), print=lambda *_: None, is_rank_0=lambda: False
    )
    rows = Dataset.from_list([{"input": prompt, "label": "1"}])
    return CoevoPromptDataset(rows, tokenizer, host, input_template)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(base_policy_path())


def render(tokenizer: Any, chat: Any) -> str:
    return str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))


def test_a_template_goes_inside_the_turn(tokenizer: Any) -> None:
    dataset = dataset_of(tokenizer, render(tokenizer, CHAT))
    row = dataset._rows[0]
    placed = dataset.place(HINT, row)
    wanted = HINT.rollout_prompt(CHAT)
    assert str(placed) == render(tokenizer, wanted)
    ((sampled, trained),) = dataset.place_group([HINT], row, render(tokenizer, CHAT))
    assert (str(sampled), trained) == (render(tokenizer, wanted), render(tokenizer, CHAT))
    assert type(trained) is str
    (question,) = map(dataset.index(Settings()).question, dataset.index(Settings()).ids())
    assert question_text(question.prompt) == CHAT[0]["content"]


def test_a_text_that_an_input_template_is_put_around_is_a_text(tokenizer: Any) -> None:
    text = render(tokenizer, CHAT)
    dataset = dataset_of(tokenizer, text, input_template="Q: {}\nA:")
    assert dataset.place(HINT, dataset._rows[0]) == f"Q: think of bam .\n\n{text}\nA:"
