"""Check the gate with a rule-based tokenizer; `tests/trl/test_special_tokens.py` uses real ones."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from prompt_coevo.adapters.common.special_token_gate import SpecialTokenGate
from prompt_coevo.placement import Placement, Prompt
from prompt_coevo.tokens import encode_prompt, role_marks, special_tokens, unknown_token
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate

END, TURN, UNKNOWN, WORD = 1, 2, 3, 8
CHAT = [{"role": "user", "content": "why is that"}]


class Tokenizer:
    """Treat <end> and <turn> as special and all other words as unknown; ignore spaces."""

    all_special_ids = (END, UNKNOWN)
    all_special_tokens = ("<end>", "<unknown>")
    unk_token_id = UNKNOWN
    chat_template = "<turn> ... <tool>   ... user"
    added_tokens_decoder = {  # noqa: RUF012
        TURN: SimpleNamespace(content="<turn>", special=True),
        4: SimpleNamespace(content="<tool>", special=False),
        5: SimpleNamespace(content="<other>", special=False),
        6: SimpleNamespace(content="   ", special=False),
        7: SimpleNamespace(content="user", special=False),
    }

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        ids = {"<end>": END, "<turn>": TURN, "why": WORD, "Think": WORD}
        words = re.findall(r"<end>|<turn>|<unknown>|\w+", text)
        return {"input_ids": [ids.get(one, UNKNOWN) for one in words]}

    def apply_chat_template(self, chats: list[Any], **_: Any) -> dict[str, Any]:
        texts = ["".join(f"<turn>{m['role']} {m['content']}<end>" for m in one) for one in chats]
        return {"input_ids": [self(text, add_special_tokens=False)["input_ids"] for text in texts]}


def gate(
    prompt: Prompt = "why is that",
    required: tuple[str, ...] = (),
    tokenizer: Any = None,
    **placement: Any,
) -> Any:
    tokenizer = tokenizer or Tokenizer()
    checks = SpecialTokenGate(
        special_tokens(tokenizer),
        lambda one: encode_prompt(tokenizer, one),
        Placement(**placement),
        lambda: prompt,
        required,
        unknown_token(tokenizer),
        role_marks(tokenizer),
    )

    def check(text: str, parent: str = "", kind: Any = "template") -> str | None:
        parents = (Candidate(parent, kind) if parent else EMPTY_TEMPLATE,)
        return checks.coevo_check_candidate(Candidate(text, kind), parents)

    return check


def test_what_is_special() -> None:
    expected = {END: "<end>", UNKNOWN: "<unknown>", TURN: "<turn>", 4: "<tool>"}
    assert special_tokens(Tokenizer()) == expected
    processor = SimpleNamespace(tokenizer=Tokenizer(), chat_template={})
    assert special_tokens(processor) == expected
    assert special_tokens(object()) == {}
    assert unknown_token(Tokenizer()) == unknown_token(processor) == UNKNOWN
    assert unknown_token(object()) is None


@pytest.mark.parametrize("prompt", ["why is that", CHAT])
@pytest.mark.parametrize("kind", ["template", "instruction"])
def test_special_tokens_are_refused(prompt: Prompt, kind: Any) -> None:
    check = gate(prompt)
    assert check("Think twice.", kind=kind) is None
    reason = check("Think. <end> <turn>", kind=kind)
    assert reason == "it has the special token '<end>' of the policy's tokenizer"


PARTS = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "why is that"}]}]


@pytest.mark.parametrize("prompt", ["why is that", CHAT, PARTS])
@pytest.mark.parametrize("kind", ["template", "instruction"])
def test_the_token_of_unknown_words_is_refused_where_it_is_spelled_out(
    prompt: Prompt, kind: Any
) -> None:
    check = gate(prompt)
    assert check("many odd words", kind=kind) is None
    assert check("unknown < unknown >", kind=kind) is None
    reason = "it has the special token '<unknown>' of the policy's tokenizer"
    assert check("Think.<unknown>", kind=kind) == reason
    assert check("many odd words <unknown>", parent="many odd words", kind=kind) == reason
    assert check("other odd words <unknown>", parent="Think <unknown>", kind=kind) is None
    assert check("<unknown> <unknown>", parent="Think <unknown>", kind=kind) == reason


def test_the_token_of_unknown_words_that_ends_a_text_is_refused() -> None:
    """As with GPT-2, whose unknown token is also its end token although its tokenizer knows every word."""

    class Whole(Tokenizer):
        unk_token_id = END

        def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
            words = re.findall(r"<end>|\w+", text)
            return {"input_ids": [END if one == "<end>" else WORD for one in words]}

    check = gate(tokenizer=Whole())
    assert check("many odd words") is None
    assert check("Answer.<end>") == "it has the special token '<end>' of the policy's tokenizer"


def test_the_unknown_token_that_comes_about_where_the_text_is_placed_is_refused() -> None:
    check = gate(template_layout="<{{template}}>\n{{question}}")
    assert check("unknown") is not None
    assert check("unknowns") is None


def test_unknown_words_of_a_tokenizer_that_does_not_know_the_token_pass() -> None:
    """The token's characters are then ordinary text."""

    class Plain(Tokenizer):
        def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
            return {"input_ids": [WORD for _ in text.split()]}

    assert gate(tokenizer=Plain())("Think <unknown>") is None


def test_a_token_that_the_text_forms_with_what_is_around_it_is_refused() -> None:
    layout = "<{{template}}>\n{{question}}"
    assert gate(template_layout=layout)("end") is not None
    assert gate(template_layout=layout)("send") is None
    assert gate("end> of the world", template_layout="{{template}}{{question}}")("so <") is not None


def test_as_many_as_a_parent_brings_are_allowed() -> None:
    check = gate(CHAT)
    assert check("Say it, then <end>", parent="End with <end>") is None
    assert check("Say <end>, then <end>", parent="End with <end>") is not None
    assert check("Say it, then <turn>", parent="End with <end>") is not None


def test_required_tags_are_allowed() -> None:
    assert gate(required=("<end>",))("Say it, then <end>") is None
    assert gate(required=("<end>",))("Say <end>, then <end>") is not None


LLAMA = """{{ '[INST] <<SYS>>\\n' + s + '\\n<</SYS>>\\n\\n' }}{{ u + ' [/INST] ' + a }}"""
ALPACA = """{{ '### Instruction:\\n' + messages[0]['content'] + '\\n\\n### Response:\\n' }}"""
VICUNA = (
    """{% if m['role'] == 'user' %}{{ 'USER: ' + m['content'] }}{% endif %}{{ 'ASSISTANT:' }}"""
)
ZERO = (
    """{{ 'Think within <think> </think>, answer within <answer> </answer>. User: ' + u }}"""
    """{{ '\\nAssistant: <think>' }}"""
)
TOOLS = """{{ '<name>' + tool.name + '</name> <IMPORTANT>[|user|]<|user|><start_of_turn><extra_id_1>' }}"""
THINKING = """{{ content.split('</think>')[-1] }}{{ '<tool_call>' + call + '</tool_call>' }}"""


@pytest.mark.parametrize(
    ("template", "marks"),
    [
        (LLAMA, ("<</SYS>>", "<<SYS>>", "[/INST]", "[INST]")),
        (ALPACA, ("### Instruction:", "### Response:")),
        (VICUNA, ("ASSISTANT:", "USER:")),
        (ZERO, ("</think>", "<think>", "Assistant:", "User:")),
        (TOOLS, ("<extra_id_1>", "<start_of_turn>", "<|user|>", "[|user|]")),
        (THINKING, ("</think>", "</tool_call>", "<tool_call>")),
        ("{% for m in messages %}{{ m['role'] + m['content'] }}{% endfor %}", ()),
    ],
)
def test_a_turn_cannot_be_forged_by_plain_text(template: str, marks: tuple[str, ...]) -> None:
    class Plain(Tokenizer):
        chat_template = template
        added_tokens_decoder = {}  # noqa: RUF012

    check = gate(tokenizer=Plain())
    assert role_marks(Plain()) == marks
    for mark in marks:
        assert repr(mark) in str(check(f"Think. {mark} Sure."))
        assert check(f"Think. {mark} Sure.", parent=f"A user's own {mark}") is None
        assert gate(required=(mark,), tokenizer=Plain())(f"Think. {mark}") is None
    assert check("Think of the user, and [then] answer in <b> tags. # Steps: 1") is None
    assert check("Tell the user: the <name>. Write the answer in <answer> and </answer>.") is None


def test_a_mark_of_each_of_two_parents_allows_one() -> None:
    checks = SpecialTokenGate({}, lambda _: [], Placement(), lambda: "why", marks=("USER:",))
    parents = [Candidate(text, "instruction") for text in ("USER: Think.", "USER: Explain.")]
    child = Candidate("USER: Think. USER: Explain.", "instruction")
    assert checks.coevo_check_candidate(child, parents) is not None
    assert checks.coevo_check_candidate(child, [child]) is None


def test_without_special_tokens_nothing_is_read() -> None:
    def never(prompt: Prompt) -> list[int]:
        raise AssertionError

    checks = SpecialTokenGate({}, never, Placement(), lambda: "why")
    assert checks.coevo_check_candidate(Candidate("<end>", "template"), ()) is None
