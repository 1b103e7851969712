"""Apply the laws to a small reference implementation, or to a mutant of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from laws.core import (
    algorithm_mutants,
    language_model_mutants,
    proposer_mutants,
    retriever_mutants,
    small_method,
    small_retriever,
)
from laws.core.mutant import Mutant
from prompt_coevo import registry
from prompt_coevo.reflection.proposers.instructions import Reflection
from prompt_coevo.testing.algorithm import AlgorithmLaws
from prompt_coevo.testing.language_model import LanguageModelLaws
from prompt_coevo.testing.proposer import ProposerLaws
from prompt_coevo.testing.retriever import RetrieverLaws

REFERENCES: dict[str, Any] = {
    "algorithm": small_method.Small,
    "proposer": Reflection,
    "retriever": small_retriever.Small,
    "language_model": language_model_mutants.Small,
}
MUTANTS: dict[str, list[Mutant]] = {
    "algorithm": algorithm_mutants.MUTANTS,
    "proposer": proposer_mutants.MUTANTS,
    "retriever": retriever_mutants.MUTANTS,
    "language_model": language_model_mutants.MUTANTS,
}


def numbered(texts: Sequence[str]) -> str:
    return "".join(f"<ins_{number}>{text}</ins_{number}>" for number, text in enumerate(texts, 1))


@contextmanager
def laws_for(kind: str, planted: Any) -> Iterator[type[Any]]:
    """Return the class of laws for this kind, applied to `planted`."""
    if kind == "algorithm":
        with _offered("methods", small_method.method(planted)):
            yield _Algorithm
    elif kind == "proposer":
        with _offered("proposers", planted):
            yield _Proposer
    elif kind == "retriever":
        yield type("_", (_Retriever,), {"made": planted})
    else:
        yield type("_", (_LanguageModel,), {"made": planted})


@contextmanager
def _offered(kind: registry.Kind, component: Any) -> Iterator[None]:
    registry.register(kind, "small", component)
    try:
        yield
    finally:
        registry.unregister(kind, "small")


class _Algorithm(AlgorithmLaws):
    settings = {"algorithms": "small"}  # noqa: RUF012


class _Proposer(ProposerLaws):
    proposer = "small"
    kind = "instruction"

    def written(self, texts: Sequence[str]) -> str:
        return numbered(texts)


class _Retriever(RetrieverLaws):
    made: Any
    may_be_down = True

    @contextmanager
    def retriever(self, passages: Any) -> Iterator[Any]:
        yield self.made(small_retriever.Backend(list(passages)))

    @contextmanager
    def outage(self, retriever: Any) -> Iterator[None]:
        retriever.backend.up = False
        yield
        retriever.backend.up = True


class _LanguageModel(LanguageModelLaws):
    made: Any

    @contextmanager
    def model(self, answer: Callable[[str], str]) -> Iterator[Any]:
        yield self.made(answer)
