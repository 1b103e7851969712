"""The kinds of index: words ("bm25"), vectors ("dense"), or both ("hybrid").

An index has a part for words, one for vectors, or both. A part is a folder of its name in each shard,
and an entry of that name in the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from prompt_coevo.retrieval.corpus import Corpus, Progress
from prompt_coevo.retrieval.errors import IndexFileError
from prompt_coevo.retrieval.shards import Joined, RowSearcher, Shard, together

WORDS, VECTORS = "bm25", "dense"
_PARTS: Final = {"bm25": (WORDS,), "dense": (VECTORS,), "hybrid": (WORDS, VECTORS)}

Stages: TypeAlias = Callable[[str], Progress]
"""Told the name of each stage of a build, gives the function that follows it."""


@dataclass(frozen=True)
class Request:
    """What to build.

    `kind` is "bm25", "dense", or "hybrid" for both. `encoder` and `index` are for vectors: see
    `prompt_coevo.retrieval.dense.encoders` and `.dense`. `faiss_file` is an index of the corpus that
    Search-R1 made with that encoder, adopted as it is, or with another `index` made into that. `devices`
    are those that embed, by default all GPUs that torch sees. `analyzer` makes words of texts, "english"
    if it is None, and has its options. `shards` cuts the corpus into ranges of rows.
    """

    kind: str = "bm25"
    encoder: str = "e5"
    index: str = "auto"
    faiss_file: Path | None = None
    shards: int = 1
    analyzer: str | None = None
    analyzer_options: Mapping[str, Any] = field(default_factory=dict)
    devices: tuple[str, ...] = ()


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


def parts_of(kind: str) -> tuple[str, ...]:
    """Return the parts of an index of this kind. Raises IndexFileError for an unknown one."""
    if kind not in _PARTS:
        raise IndexFileError(
            f"there is no index of kind {kind!r}; choose bm25, dense or hybrid, or write a retriever of "
            "your own for anything else that searches (docs/retrieval.md)"
        )
    return _PARTS[kind]


def check(request: Request) -> None:
    """Refuse what cannot be built, before a large corpus is read.

    Raises IndexFileError, SettingsError for an analyzer, EncoderError for an encoder, and what `load_faiss`
    raises.
    """
    parts = parts_of(request.kind)
    if request.shards < 1:
        raise IndexFileError(f"an index has one shard or more, but not {request.shards}")
    if WORDS in parts:
        from prompt_coevo.retrieval.bm25.recorded import chosen

        chosen(request.analyzer, request.analyzer_options)
    elif request.analyzer is not None or request.analyzer_options:
        raise IndexFileError(
            f"an analyzer has no effect on a {request.kind} index; ask for bm25 or hybrid"
        )
    if VECTORS in parts:
        _check_vectors(request)
    else:
        _refuse_vectors(request)


def _check_vectors(request: Request) -> None:
    from prompt_coevo.retrieval.dense.encoder_recipes import resolve
    from prompt_coevo.retrieval.dense.faiss_package import load_faiss

    if request.faiss_file is not None and request.shards > 1:
        raise IndexFileError("a faiss file is adopted as one index; leave shards at 1 with it")
    if request.faiss_file is not None and request.devices:
        raise IndexFileError("devices have no effect with a faiss file: nothing is embedded")
    load_faiss()
    resolve(request.encoder)


def _refuse_vectors(request: Request) -> None:
    for given, what in (
        (request.faiss_file is not None, "a faiss file has"),
        (bool(request.devices), "devices have"),
        (request.encoder != Request.encoder, "encoder has"),
        (request.index != Request.index, "index has"),
    ):
        if given:
            raise IndexFileError(
                f"{what} no effect on a {request.kind} index, which has no vectors; ask for dense or hybrid"
            )


def foresee(request: Request, shards: Sequence[range]) -> Foreseen | None:
    """Estimate what building takes for these rows of the corpus; None if that is not known.

    The words are left out, which are small beside the vectors, and the memory of the encoder. Raises
    IndexFileError for what cannot be built.
    """
    if VECTORS not in parts_of(request.kind):
        return None
    from prompt_coevo.retrieval.dense.estimate import foresee as foresee_vectors

    rows = [len(shard) for shard in shards]
    return foresee_vectors(request.encoder, request.index, request.faiss_file, rows)


def build(
    request: Request, corpus: Corpus, shards: Sequence[Shard], stages: Stages, work: Path
) -> dict[str, Any]:
    """Build the parts of an index; return what its manifest says of each.

    Whatever lies in the shards' folders then is part of the index. A build that was stopped finds there
    what it had left. `work` is a folder for other files. The vectors come first: they take longest, and a
    build that is stopped later keeps them.

    Raises IndexFileError or CorpusError for what cannot be built.
    """
    built: dict[str, Any] = {}
    parts = parts_of(request.kind)
    if VECTORS in parts:
        numbers = range(len(shards))
        built[VECTORS] = [_vectors(request, corpus, shards, stages, number) for number in numbers]
    if WORDS in parts:
        from prompt_coevo.retrieval.bm25.build import build_bm25
        from prompt_coevo.retrieval.bm25.recorded import chosen

        analyzer, entry = chosen(request.analyzer, request.analyzer_options)
        own = [shard._replace(folder=shard.folder / WORDS) for shard in shards]
        said = build_bm25(corpus, own, work, stages("building bm25"), analyzer)
        built[WORDS] = {**said, "analyzer": entry}
    return built


def _vectors(
    request: Request, corpus: Corpus, shards: Sequence[Shard], stages: Stages, number: int
) -> dict[str, Any]:
    from prompt_coevo.retrieval.dense.index import build_dense

    shard, count = shards[number], len(shards)
    stage = "embedding" if request.faiss_file is None else "reading vectors"
    stage += f" shard {number + 1} of {count}" if count > 1 else ""
    return build_dense(
        corpus,
        shard.folder / VECTORS,
        encoder=request.encoder,
        index=request.index,
        rows=shard.rows,
        faiss_file=request.faiss_file,
        devices=request.devices,
        progress=stages(stage),
    )


def open_parts(
    corpus: Corpus, shards: Sequence[Shard], details: Mapping[str, Any], gpus: str
) -> RowSearcher:
    """Open the parts that `build` returned as `details`, vectors on "auto", "all" or "none" of the GPUs.

    Two rankings are made one by reciprocal rank fusion. Raises IndexFileError.
    """
    if VECTORS in details:
        from prompt_coevo.retrieval.dense.gpu import check_gpus

        check_gpus(gpus)
    elif gpus != "auto":
        raise IndexFileError("gpus have no effect on an index of words; leave them at auto")
    searchers = [
        _open_words(shards, said) if part == WORDS else _open_vectors(corpus, shards, said, gpus)
        for part, said in details.items()
    ]
    if len(searchers) == 1:
        return searchers[0]
    from prompt_coevo.retrieval.fusion import FUSED_DEPTH, fuse

    return Joined(searchers, fuse, FUSED_DEPTH)


def _open_words(shards: Sequence[Shard], said: Mapping[str, Any]) -> RowSearcher:
    from prompt_coevo.retrieval.bm25.index import Bm25Index
    from prompt_coevo.retrieval.bm25.recorded import of_manifest

    analyzer = of_manifest(said.get("analyzer"))
    return together([Bm25Index(shard.folder / WORDS, shard.rows, analyzer) for shard in shards])


def _open_vectors(
    corpus: Corpus, shards: Sequence[Shard], said: Sequence[Mapping[str, Any]], gpus: str
) -> RowSearcher:
    from prompt_coevo.retrieval.dense.index import DenseIndex

    return together(
        [
            DenseIndex.open(shard.folder / VECTORS, corpus, one, shard.rows, gpus=gpus)
            for shard, one in zip(shards, said, strict=True)
        ]
    )
