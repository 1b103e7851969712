"""The kinds of index: words ("bm25"), vectors ("dense"), or both ("hybrid").

An index has a part for words, one for vectors, or both. A part is a folder with its name in each shard, and
an entry with its name in the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from prompt_coevo.retrieval.bm25.build import build_bm25
from prompt_coevo.retrieval.bm25.index import Bm25Index
from prompt_coevo.retrieval.bm25.recorded import chosen, of_manifest
from prompt_coevo.retrieval.corpus import Corpus, Progress
from prompt_coevo.retrieval.dense import estimate
from prompt_coevo.retrieval.dense.encoder_recipes import resolve
from prompt_coevo.retrieval.dense.estimate import Foreseen
from prompt_coevo.retrieval.dense.faiss_package import load_faiss
from prompt_coevo.retrieval.dense.gpu import check_gpus
from prompt_coevo.retrieval.dense.index import DenseIndex, build_dense
from prompt_coevo.retrieval.errors import IndexFileError
from prompt_coevo.retrieval.fusion import FUSED_DEPTH, fuse
from prompt_coevo.retrieval.shards import Joined, RowSearcher, Shard, together

WORDS, VECTORS = "bm25", "dense"
_PARTS: Final = {"bm25": (WORDS,), "dense": (VECTORS,), "hybrid": (WORDS, VECTORS)}

Stages: TypeAlias = Callable[[str], Progress]
"""Called with the name of each stage of a build; returns the progress callback for it."""


@dataclass(frozen=True)
class Request:
    """A request to build an index.

    `kind` is "bm25", "dense", or "hybrid" for both. `encoder` and `index` are for vectors: see
    `prompt_coevo.retrieval.dense.encoders` and `.dense`. `faiss_file` is an index of the corpus that
    Search-R1 made with that encoder: adopted as it is, or converted to another type given by `index`.
    `analyzer` (None for "english") splits texts into words; `analyzer_options` are its options. `shards`
    splits the corpus into this many ranges of rows.
    """

    kind: str = "bm25"
    encoder: str = "e5"
    index: str = "auto"
    faiss_file: Path | None = None
    shards: int = 1
    analyzer: str | None = None
    analyzer_options: Mapping[str, Any] = field(default_factory=dict)


def parts_of(kind: str) -> tuple[str, ...]:
    """Return the parts of an index of this kind. Raises IndexFileError for an unknown one."""
    if kind not in _PARTS:
        raise IndexFileError(
            f"there is no index of kind {kind!r}; choose bm25, dense or hybrid, or write a retriever of "
            "your own for anything else that searches (docs/search-agent.md)"
        )
    return _PARTS[kind]


def check(request: Request) -> None:
    """Refuse what cannot be built, before a large corpus is read.

    Raises IndexFileError, SettingsError for an analyzer, EncoderError for an encoder, and the errors of
    `load_faiss`.
    """
    parts = parts_of(request.kind)
    if request.shards < 1:
        raise IndexFileError(
            f"an index needs at least one shard, but {request.shards} were requested"
        )
    for part, given, what in (
        (WORDS, request.analyzer is not None or bool(request.analyzer_options), "an analyzer has"),
        (VECTORS, request.faiss_file is not None, "a faiss file has"),
        (VECTORS, request.encoder != Request.encoder, "encoder has"),
        (VECTORS, request.index != Request.index, "index has"),
    ):
        if given and part not in parts:
            raise IndexFileError(
                f"{what} no effect on a {request.kind} index; ask for {part} or hybrid"
            )
    if WORDS in parts:
        chosen(request.analyzer, request.analyzer_options)
    if VECTORS in parts:
        if request.faiss_file is not None and request.shards > 1:
            raise IndexFileError("a faiss file is adopted as one index; leave shards at 1 with it")
        load_faiss()
        resolve(request.encoder)


def foresee(request: Request, shards: Sequence[range]) -> Foreseen | None:
    """Estimate what building takes for these rows of the corpus; None if unknown.

    Leaves out the words, which are small beside the vectors, and the encoder's memory. Raises
    IndexFileError for what cannot be built.
    """
    if VECTORS not in parts_of(request.kind):
        return None
    rows = [len(shard) for shard in shards]
    return estimate.foresee(request.encoder, request.index, request.faiss_file, rows)


def build(
    request: Request, corpus: Corpus, shards: Sequence[Shard], stages: Stages, work: Path
) -> dict[str, Any]:
    """Build the parts of an index; return the manifest's entry for each.

    Everything in the shards' folders at the end is part of the index; a stopped build finds its earlier
    files there. `work` is a folder for other files. The vectors come first: they take longest, and a build
    that is stopped later keeps them.

    Raises IndexFileError or CorpusError for what cannot be built.
    """
    built: dict[str, Any] = {}
    parts = parts_of(request.kind)
    if VECTORS in parts:
        stage = "embedding" if request.faiss_file is None else "reading vectors"
        built[VECTORS] = []
        for number, shard in enumerate(shards, 1):
            of = f" shard {number} of {len(shards)}" if len(shards) > 1 else ""
            said = build_dense(
                corpus,
                shard.folder / VECTORS,
                encoder=request.encoder,
                index=request.index,
                rows=shard.rows,
                faiss_file=request.faiss_file,
                progress=stages(stage + of),
            )
            built[VECTORS].append(said)
    if WORDS in parts:
        analyzer, entry = chosen(request.analyzer, request.analyzer_options)
        own = [shard._replace(folder=shard.folder / WORDS) for shard in shards]
        facts = build_bm25(corpus, own, work, stages("building bm25"), analyzer)
        built[WORDS] = {**facts, "analyzer": entry}
    return built


def open_parts(
    corpus: Corpus, shards: Sequence[Shard], details: Mapping[str, Any], gpus: str
) -> RowSearcher:
    """Open the parts described by `details`, with vectors on "auto", "all" or "none" of the GPUs.

    Two rankings are joined by reciprocal rank fusion. Raises IndexFileError.
    """
    if VECTORS in details:
        check_gpus(gpus)
    elif gpus != "auto":
        raise IndexFileError("gpus have no effect on an index of words; leave them at auto")
    searchers: list[RowSearcher] = []
    if WORDS in details:
        analyzer = of_manifest(details[WORDS].get("analyzer"))
        own = [Bm25Index(shard.folder / WORDS, shard.rows, analyzer) for shard in shards]
        searchers.append(together(own))
    if VECTORS in details:
        pairs = zip(shards, details[VECTORS], strict=True)
        vectors = [
            DenseIndex.open(shard.folder / VECTORS, corpus, said, shard.rows, gpus)
            for shard, said in pairs
        ]
        searchers.append(together(vectors))
    return searchers[0] if len(searchers) == 1 else Joined(searchers, fuse, FUSED_DEPTH)
