"""What a kind of index is: how it is built, opened and described. One object stands for each kind.

The built-in ones are in `bm25/kind.py`, `dense/kind.py` and `index/hybrid.py`. Strangers' are found in the
same way, by the name that they are registered under among the "indexes" of `prompt_coevo.registry`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from prompt_coevo.retrieval.corpus import Corpus, Progress
from prompt_coevo.retrieval.errors import IndexFileError
from prompt_coevo.retrieval.shards import RowSearcher, Shard

Stages: TypeAlias = Callable[[str], Progress]
"""Told the name of each stage of a build, gives the function that follows it."""


@dataclass(frozen=True)
class Request:
    """What to build.

    `kind` is "bm25", "dense", "hybrid" for both, or whatever else is registered or can be imported.
    `encoder` and `index` are for "dense" and "hybrid": see `prompt_coevo.retrieval.dense.encoders` and
    `.dense`. `faiss_file` is an index of the corpus that Search-R1 made with that encoder, adopted as it
    is, or with another `index` made into that. `analyzer` is for "bm25" and "hybrid": what makes words of
    texts, "english" if it is None, and its options. `shards` cuts the corpus into ranges of rows. `options`
    are for kinds that have some. `devices` are those that embed, by default all GPUs that torch sees.
    """

    kind: str = "bm25"
    encoder: str = "e5"
    index: str = "auto"
    faiss_file: Path | None = None
    shards: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    analyzer: str | None = None
    analyzer_options: Mapping[str, Any] = field(default_factory=dict)
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """What a kind is given to build.

    The shards together are the corpus, and their folders are there. All files of the index belong into
    these, with any names: whatever lies there when the build is over is part of the index. A build that
    was stopped is called again with the same request and finds there what it had left. `work` is a
    folder for other files, to be made and removed by who needs it.
    """

    corpus: Corpus
    shards: Sequence[Shard]
    request: Request
    stages: Stages
    work: Path


@dataclass(frozen=True)
class Foreseen:
    """What a build will take, in bytes.

    `what` is built; `parts` are the larger things that it reads or makes, for the reader; `memory` and
    `disk` are what it needs of them at most.
    """

    what: str
    parts: Mapping[str, int]
    memory: int
    disk: int


class IndexKind(ABC):
    """A kind of index. Its objects hold nothing: what one method learns, another one reads from files."""

    def check(self, request: Request) -> None:
        """Raise IndexFileError for what cannot be built, before the corpus is read.

        As it is here, it refuses what only some kinds look at.
        """
        if request.faiss_file is not None:
            raise IndexFileError(
                f"a faiss file has no effect on a {request.kind} index; ask for dense or hybrid"
            )
        if request.devices:
            raise IndexFileError(
                f"devices have no effect on a {request.kind} index, for which nothing is embedded"
            )
        for name in ("encoder", "index"):
            if getattr(request, name) != getattr(Request, name):
                raise IndexFileError(
                    f"{name} has no effect on a {request.kind} index, which has no vectors; ask for "
                    "dense or hybrid"
                )
        refuse_options(request)
        refuse_analyzer(request)

    def foresee(self, request: Request, shards: Sequence[range]) -> Foreseen | None:
        """What building will take for these rows of the corpus; None, as here, if that is not known.

        Raises IndexFileError for what cannot be built.
        """
        return None

    @abstractmethod
    def build(self, job: Job) -> Mapping[str, Any]:
        """Build an index; returns what its manifest says about it, as JSON can hold it.

        Raises IndexFileError or CorpusError for what cannot be built; the fingerprint is of these
        words, too.
        """

    @abstractmethod
    def open(
        self, corpus: Corpus, shards: Sequence[Shard], details: Mapping[str, Any]
    ) -> RowSearcher:
        """Open what `build` made, for all shards; `details` are what it returned.

        `prompt_coevo.retrieval.shards.together` joins searchers of single shards. Raises IndexFileError.
        """

    def on_gpus(self, gpus: str) -> IndexKind:
        """This kind, opened on "auto", "all" or "none" of the GPUs. As it is here, it is not for GPUs.

        Raises IndexFileError.
        """
        if gpus != "auto":
            raise IndexFileError("gpus have no effect on an index of this kind; leave them at auto")
        return self

    def describe(self, details: Mapping[str, Any]) -> Mapping[str, Any]:
        """What users are told of the details."""
        return details


def refuse_options(request: Request) -> None:
    """Raise IndexFileError if options are given to a kind that has none."""
    if request.options:
        given = ", ".join(sorted(request.options))
        raise IndexFileError(f"a {request.kind} index has no options, but was given: {given}")


def refuse_analyzer(request: Request) -> None:
    """Raise IndexFileError if a kind that has no words is asked for some."""
    if request.analyzer is not None or request.analyzer_options:
        raise IndexFileError(
            f"an analyzer has no effect on a {request.kind} index; ask for bm25 or hybrid"
        )
