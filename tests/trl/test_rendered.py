"""Check rendered chats as prompts: a template goes where it would go in a message.

The chat templates are those of real models: TRL's package has them, and two are written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import trl
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from helpers.trl_world import TASKS, FixedTemplates, right_hint, rows, score
from prompt_coevo.adapters.trl import attach
from prompt_coevo.errors import DatasetError
from prompt_coevo.placement import Placement, RenderedChat, question_text, system_message
from prompt_coevo.rendered import ChatReader

LLAMA2 = """
{%- if messages[0]['role'] == 'system' %}
{%- set turns = messages[1:] %}{% set system = messages[0]['content'] %}
{%- else %}{% set turns = messages %}{% set system = false %}{% endif %}
{%- for message in turns %}
{%- if loop.index0 == 0 and system != false %}
{%- set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + message['content'] %}
{%- else %}{% set content = message['content'] %}{% endif %}
{%- if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
{%- elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}
{%- endfor %}
"""
MISTRAL = """
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
{%- set system = messages[0]['content'] %}{% set turns = messages[1:] %}
{%- else %}{% set turns = messages %}{% endif %}
{%- for message in turns %}
{%- if message['role'] == 'user' and loop.last and system is defined %}
{{- '[INST] ' + system + '\\n\\n' + message['content'] + '[/INST]' }}
{%- elif message['role'] == 'user' %}{{ '[INST] ' + message['content'] + '[/INST]' }}
{%- elif message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token }}{% endif %}
{%- endfor %}
"""
SMOLLM2 = """
{%- for message in messages %}
{%- if loop.first and messages[0]['role'] != 'system' %}
{{- '<|im_start|>system\\nYou are a helpful AI assistant named SmolLM<|im_end|>\\n' }}{% endif %}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""
WRITTEN = {
    "llama2": (LLAMA2, "<s>", "</s>"),
    "mistral": (MISTRAL, "<s>", "</s>"),
    "smollm2": (SMOLLM2, "<|im_start|>", "<|im_end|>"),  # both are what the model itself says
}
PACKAGED = {
    "gemma": ("<bos>", "<eos>"),
    "gemma3": ("<bos>", "<eos>"),
    "llama3": ("<|begin_of_text|>", "<|eot_id|>"),
    "llama3_2": ("<|begin_of_text|>", "<|eot_id|>"),
    "phi3": ("<s>", "<|endoftext|>"),
    "qwen2_5": (None, "<|im_end|>"),
    "qwen3": (None, "<|im_end|>"),
}
MARKS = [
    *("<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>"),
    *(
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|user|>",
        "<|assistant|>",
        "<|system|>",
        "<|end|>",
    ),
]
NO_SYSTEM = ("gemma",)
FOLDED = ("mistral", "gemma3")  # a system message is the beginning of a user's text
ONE_TURN = ("mistral",)

USER = {"role": "user", "content": "What is 2 + 3?"}
SYSTEM = {"role": "system", "content": "Be brief."}
ANSWER = {"role": "assistant", "content": "It is 5."}
LAST = {"role": "user", "content": "And 3 + 3?\nSay it."}
CHATS = {
    "a question": [USER],
    "a system message": [SYSTEM, USER],
    "turns": [USER, ANSWER, LAST],
    "both": [SYSTEM, USER, ANSWER, LAST],
}


def tokenizer_of(name: str) -> PreTrainedTokenizerFast:
    if name in WRITTEN:
        template, begin, end = WRITTEN[name]
    else:
        path = Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja"
        if not path.exists():
            pytest.skip(f"this version of TRL has no {path.name}")
        template, (begin, end) = path.read_text("utf-8"), PACKAGED[name]
    found = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"<unk>": 0}, "<unk>")),
        bos_token=begin,
        eos_token=end,
        unk_token="<unk>",
        additional_special_tokens=[mark for mark in MARKS if mark in template],
    )
    found.chat_template = template
    return found


def render(tokenizer: Any, chat: Sequence[Any]) -> str:
    return str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))


NAMES = [*WRITTEN, *PACKAGED]
every = pytest.mark.parametrize("name", NAMES)
every_kind = pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name in NAMES
        for kind, chat in CHATS.items()
        if chat[0] != SYSTEM or name not in (*NO_SYSTEM, *FOLDED)
    ],
)


@every_kind
@pytest.mark.parametrize("layout", ["{{template}}\n\n{{question}}", "{{question}}\n\n{{template}}"])
def test_a_template_goes_where_a_message_has_it(name: str, kind: str, layout: str) -> None:
    tokenizer, chat = tokenizer_of(name), CHATS[kind]
    placement = Placement(template_layout=layout)
    read = ChatReader(tokenizer)(render(tokenizer, chat))
    placed = placement.place(read, None, "Count on your fingers.")
    assert type(placed) is str
    assert placed == render(tokenizer, list(placement.place(chat, None, "Count on your fingers.")))
    assert placement.place(read, None, None) == render(tokenizer, chat)
    assert question_text(read) == question_text(chat)


@every_kind
def test_an_instruction_goes_where_a_message_has_it(name: str, kind: str) -> None:
    tokenizer, chat = tokenizer_of(name), CHATS[kind]
    read = ChatReader(tokenizer)(render(tokenizer, chat))
    if name in NO_SYSTEM or (name in ONE_TURN and len(chat) > 1):
        with pytest.raises(DatasetError, match='set placement.instruction = "prefix"'):
            Placement().place(read, "You are good at sums.", None)
    else:
        for texts in (("You are good at sums.", None), ("You are good at sums.", "Count.")):
            wanted = render(tokenizer, list(Placement().place(chat, *texts)))
            assert Placement().place(read, *texts) == wanted
    prefix = Placement(instruction="prefix")
    wanted = render(tokenizer, list(prefix.place(chat, "You are good at sums.", "Count.")))
    assert prefix.place(read, "You are good at sums.", "Count.") == wanted


@pytest.mark.parametrize(
    "name", [one for one, (begin, _) in PACKAGED.items() if begin] + ["llama2"]
)
def test_the_token_that_begins_a_text_may_be_left_out(name: str) -> None:
    tokenizer, chat = tokenizer_of(name), CHATS["a question"]
    begin = tokenizer.bos_token
    wanted = render(tokenizer, list(Placement().place(chat, None, "Count.")))
    read = ChatReader(tokenizer)(render(tokenizer, chat).removeprefix(begin))
    assert Placement().place(read, None, "Count.") == wanted.removeprefix(begin)
    if name not in NO_SYSTEM:
        wanted = render(tokenizer, list(Placement().place(chat, "Be kind.", None)))
        assert Placement().place(read, "Be kind.", None) == wanted.removeprefix(begin)


@every
def test_a_begun_answer_stays_behind_the_question(name: str) -> None:
    tokenizer, chat = tokenizer_of(name), CHATS["a question"]
    placed = Placement().place(
        ChatReader(tokenizer)(render(tokenizer, chat) + "Let me think"), None, "Count."
    )
    wanted = render(tokenizer, list(Placement().place(chat, None, "Count.")))
    assert placed == wanted + "Let me think"


@every
def test_other_texts_stay_as_they_are(name: str) -> None:
    read = ChatReader(tokenizer_of(name))
    for text in ("What is 2 + 3?", "", "user: What is [2 + 3]?", "a < b and b > c"):
        assert read(text) is text
    assert read(CHATS["turns"]) is CHATS["turns"]


def test_marks_of_thinking_in_a_question_are_text() -> None:
    tokenizer = tokenizer_of("qwen3")
    tokenizer.add_tokens(["<think>", "</think>"])
    chat = [{"role": "user", "content": "Reason in <think> </think> tags: what is 2 + 3?"}]
    read = ChatReader(tokenizer)(render(tokenizer, chat))
    assert question_text(read) == chat[0]["content"]
    plain = "Reason in <think> </think> tags: what is 2 + 3?"
    assert ChatReader(tokenizer)(plain) is plain


def test_marks_without_a_users_turn_are_refused() -> None:
    read = ChatReader(tokenizer_of("qwen2_5"))
    with pytest.raises(DatasetError, match=r"rendered already \(one holds '<\|im_start\|>'\)"):
        read("<|im_start|>human\nWhat is 2 + 3?<|im_end|>\n<|im_start|>assistant\n")


def test_a_chat_template_that_nobody_understands_is_refused_where_it_was_used() -> None:
    tokenizer = tokenizer_of("qwen2_5")
    shouted = "{% for message in messages %}{{ message['content'] | upper }}{% endfor %}"
    tokenizer.chat_template = f"<|im_start|>{shouted}<|im_end|>"
    with pytest.raises(DatasetError, match="prompts are rendered already"):
        ChatReader(tokenizer)(render(tokenizer, CHATS["turns"]))
    assert ChatReader(tokenizer)("What is 2 + 3?") == "What is 2 + 3?"


def test_the_system_message_of_a_rendered_chat_is_known() -> None:
    tokenizer = tokenizer_of("llama2")
    read = ChatReader(tokenizer)(render(tokenizer, CHATS["both"]))
    assert isinstance(read, RenderedChat)
    assert system_message(read) == "Be brief."
    assert question_text(read) == LAST["content"]


def test_a_run_on_rendered_prompts_trains_as_one_on_messages(
    make_trainer: Any, tokenizer: Any
) -> None:
    """The policy samples under the same ids, and the loss is on the same, with templates distilled."""
    ends = []
    for rendered in (False, True):
        data = rows()
        if rendered:
            data = [{**row, "prompt": render(tokenizer, row["prompt"])} for row in data]
        trainer = make_trainer(dataset=data, reward_funcs=score, learning_rate=1e-3)
        hints = {row["id"]: [right_hint(task), ""] for row, task in zip(data, TASKS, strict=True)}
        settings = {"question_id_column": "id", "algorithms": []}
        attach(trainer, settings, plugins={"fixed": FixedTemplates(hints)})
        trainer.train()
        ends.append(trainer.model.state_dict())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    untrained = make_trainer().model.state_dict()
    assert any(not torch.equal(ends[0][name], untrained[name]) for name in untrained)
