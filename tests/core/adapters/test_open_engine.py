from __future__ import annotations

from pathlib import Path
from typing import Any

from prompt_coevo import Settings, hookspecs
from prompt_coevo.adapters.common.length_gate import PromptLimit, tokens_needed
from prompt_coevo.adapters.common.open_engine import open_engine
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.candidates.leaks import LeakGuard
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.proposals import Reply
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate


class WordTokenizer:
    """One id per word: its length."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        assert not add_special_tokens
        self.calls += 1
        return {"input_ids": [len(word) for word in text.split()]}

    def apply_chat_template(
        self, chats: list[Any], tools: tuple[str, ...] = (), **_: Any
    ) -> dict[str, list[list[int]]]:
        texts = [
            " ".join([*tools, *(m["role"] + " " + m["content"] for m in one)]) for one in chats
        ]
        return {"input_ids": [self(text, add_special_tokens=False)["input_ids"] for text in texts]}


class Model:
    vocab_size = 8

    def get_text_config(self) -> Model:
        return self


def build(tokenizer: WordTokenizer, tmp_path: Path, tokens: int | None = None) -> Coevolution:
    questions = QuestionIndex(
        [{"prompt": "why is that"}], prompt=lambda row: row["prompt"], truth=lambda row: None
    )
    return open_engine(
        "mine",
        Settings(reflection={"function": str}),
        questions,
        PromptLimit(
            lambda prompts: tokens_needed(tokenizer, prompts), lambda: tokens, "there is room for"
        ),
        output_dir=tmp_path,
        tokenizer=tokenizer,
        model_config=Model(),
        initial_policy="nobody/nothing",
    )


def refusal(engine: Coevolution, text: str) -> str | None:
    return engine.context.check(
        hookspecs.coevo_check_candidate,
        candidate=Candidate(text, "template"),
        parents=(EMPTY_TEMPLATE,),
        reply=Reply(text),
        known=set(),
        leak_guard=LeakGuard(),
    )


def test_it_counts_with_a_tokenizer_of_its_own(tmp_path: Path) -> None:
    """The trainer tokenises in another thread at the same time, so the engine needs its own tokenizer."""
    tokenizer = WordTokenizer()
    assert build(tokenizer, tmp_path).context.count_tokens("one two three") == 3
    assert tokenizer.calls == 0


def test_both_gates_are_there_and_named_after_the_adapter(tmp_path: Path) -> None:
    engine = build(WordTokenizer(), tmp_path, tokens=5)
    assert refusal(engine, "think twice") is None
    assert (
        refusal(engine, "think about it")
        == "with it the longest question needs 6 tokens, there is room for 5"
    )
    assert refusal(engine, "question") == "it has tokens beyond the 8 of the policy's vocabulary"
    assert "mine_length_gate" in plugin_states(engine.state_dict())


def test_without_a_limit_any_length_will_do(tmp_path: Path) -> None:
    assert refusal(build(WordTokenizer(), tmp_path), "so " * 30) is None


def test_the_longest_prompt_is_counted_as_text_or_as_chat() -> None:
    tokenizer = WordTokenizer()
    chats = [[{"role": "user", "content": text}] for text in ("why", "why is that")]
    assert tokens_needed(tokenizer, ["why", "why is that"]) == 3
    assert tokens_needed(tokenizer, chats) == 4
    assert tokens_needed(tokenizer, chats, tools=("calculator",)) == 5
