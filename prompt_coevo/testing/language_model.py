"""The laws of language models.

    from prompt_coevo.testing.language_model import LanguageModelLaws

    class TestMine(LanguageModelLaws):
        @contextmanager
        def model(self, answer):
            with my_server(answer) as address:
                yield MyModel(address)

`answer` replaces the real model behind yours: a function from prompt to reply.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress

from prompt_coevo.proposals import LanguageModel, Reply
from prompt_coevo.testing.checks import AT_ONCE, at_once, same

_PATIENCE_S = 0.5
_REPLIES = (
    "fine",
    "",
    " two\nlines \n",
    "é Ω 👩‍🚀 \u2028",
    "<html>",
    '{"error": 1}',
    "x" * 200_000,
)
_PROMPTS = ("", " ", "\x00 \x1b[2J", "half a pair: \ud800", "é Ω 👩‍🚀 \u202e", "x" * 100_000)


class LanguageModelLaws:
    """Subclass this and implement `model`."""

    def model(self, answer: Callable[[str], str]) -> AbstractContextManager[LanguageModel]:
        """Open the model in front of `answer`, which several threads may call.

        Where `answer` raises, the service behind the model must fail in its own way for this prompt,
        permanently: asking again must not help.
        """
        raise NotImplementedError

    def test_replies_come_in_the_order_of_the_prompts(self) -> None:
        """There is one reply per prompt, also for equal prompts, whichever was answered first."""
        late = threading.Event()

        def answer(prompt: str) -> str:
            if prompt == "0":  # comes last, if the model asks concurrently
                late.wait(_PATIENCE_S)
            if prompt == "3":
                late.set()
            return f"to {prompt}"

        prompts = ["0", "1", "2", "1", "3", *map(str, range(4, 20)), "1"]
        with self.model(answer) as model:
            same(_texts(model, prompts), [f"to {one}" for one in prompts], "replies are mixed up")
            assert model.complete([]) == [], "there is a reply without a prompt"

    def test_errors_become_replies(self) -> None:
        """A failed prompt raises nothing, and the other prompts are answered."""

        def answer(prompt: str) -> str:
            if prompt == "bad":
                raise RuntimeError("this prompt is refused")
            return f"to {prompt}"

        with self.model(answer) as model:
            for prompts in (["bad"], ["a", "bad", "b"], ["bad", "bad"], ["c"]):
                expected = [None if one == "bad" else f"to {one}" for one in prompts]
                same(_texts(model, prompts), expected, f"wrong replies to {prompts}")

    def test_texts_are_kept_as_they_are(self) -> None:
        """Any text comes back unchanged, and an empty one is no error."""
        for text in _REPLIES:
            with self.model(lambda prompt, text=text: text) as model:  # type: ignore[misc]
                same(_texts(model, ["a"]), [text], "a text came back changed")

    def test_no_prompt_raises(self) -> None:
        """Every prompt gets a reply, if only an error."""
        with self.model(lambda prompt: "fine") as model:
            _texts(model, _PROMPTS)

    def test_usage_is_never_negative(self) -> None:
        """It is never negative, also when a call fails or nobody knows its cost."""

        def answer(prompt: str) -> str:
            return str(1 / 0) if prompt == "bad" else "fine"

        with self.model(answer) as model:
            for reply in model.complete(["a", "bad"]):
                usage = reply.usage
                for name in ("prompt_tokens", "completion_tokens"):
                    count = getattr(usage, name)
                    assert isinstance(count, int), f"usage.{name} is {count!r}"
                    assert count >= 0, f"usage.{name} is {count!r}"
                assert math.isfinite(usage.usd), f"usage.usd is {usage.usd!r}"
                assert usage.usd >= 0, f"usage.usd is {usage.usd!r}"

    def test_threads_do_not_mix(self) -> None:
        """Several threads may ask at the same time, and each gets its own replies."""
        asked = [[f"{number}.{place}" for place in range(6)] for number in range(AT_ONCE)]
        together = threading.Barrier(2)

        def answer(prompt: str) -> str:
            # Wait until another thread asks too. A model that asks one at a time breaks the barrier.
            with suppress(threading.BrokenBarrierError):
                together.wait(_PATIENCE_S)
            return f"to {prompt}"

        with self.model(answer) as model:
            found = at_once(lambda number: _texts(model, asked[number]))
        expected = [[f"to {one}" for one in prompts] for prompts in asked]
        same(found, expected, "a thread got replies of others")


def _texts(model: LanguageModel, prompts: Sequence[str]) -> list[str | None]:
    """Ask, check that every prompt has one valid reply, and return the texts."""
    replies = model.complete(prompts)
    assert len(replies) == len(prompts), f"{len(replies)} replies to {len(prompts)} prompts"
    for reply in replies:
        _check(reply)
    return [reply.text for reply in replies]


def _check(reply: Reply) -> None:
    if reply.error is None:
        assert isinstance(reply.text, str), f"a reply has neither a text nor an error: {reply}"
    else:
        assert reply.text is None, f"a reply has both an error and a text: {reply!r:.200}"
        assert reply.error, "an error says nothing"
