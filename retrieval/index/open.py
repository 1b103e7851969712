"""Opening an index: from its folder to something that answers queries."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from pathlib import Path

from prompt_coevo.errors import SettingsError
from prompt_coevo.retrieval.corpus import Corpus
from prompt_coevo.retrieval.errors import IndexFileError, RetrieverError
from prompt_coevo.retrieval.index import layout, manifest
from prompt_coevo.retrieval.index.manifest import Manifest
from prompt_coevo.retrieval.kinds import IndexKind
from prompt_coevo.retrieval.named import index_kind
from prompt_coevo.retrieval.retriever import Hit, IndexInfo, Limits, check_search, no_limits
from prompt_coevo.retrieval.shards import RowSearcher


class PassageIndex:
    """A Retriever on an index of this machine."""

    def __init__(
        self, info: IndexInfo, corpus: Corpus, searcher: RowSearcher, limits: Limits | None = None
    ) -> None:
        self._info = info
        self._corpus = corpus
        self._searcher = searcher
        self._limits = limits

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """As Retriever says. Raises RetrieverError if the kind of the index finds no rows."""
        check_search(queries, k, self._limits)
        found = self._searcher.search_rows(queries, k)
        if not isinstance(found, Sequence) or len(found) != len(queries):
            raise self._no_ranking(f"{found!r:.80} for a search with {len(queries)} queries")
        return [self._hits(ranking, k) for ranking in found]

    def info(self) -> IndexInfo:
        """As Retriever says."""
        return self._info

    def close(self) -> None:
        """As Retriever says."""
        self._searcher.close()
        self._corpus.close()

    def _hits(self, ranking: Sequence[tuple[int, float]], k: int) -> list[Hit]:
        try:
            pairs = [(operator.index(row), float(score)) for row, score in ranking]
            fits = len(pairs) <= k and all(0 <= row < len(self._corpus) for row, _ in pairs)
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise self._no_ranking(f"{ranking!r:.80} for one query and {k} passages")
        found = [(self._corpus.passage(row), score) for row, score in pairs]
        return [
            Hit(passage.id, passage.contents, score, rank, passage.fields)
            for rank, (passage, score) in enumerate(found, 1)
        ]

    def _no_ranking(self, found: str) -> RetrieverError:
        return RetrieverError(
            f"an index of kind {self._info.kind!r} found {found}; its search_rows must return, for each "
            "query, at most k pairs of a row of the corpus and a score"
        )


def open_index(
    folder: Path, *, corpus: Path | None = None, limits: Limits | None = None, gpus: str = "auto"
) -> PassageIndex:
    """Open what `build` made; `corpus` is where its corpus is now, if it moved alone.

    Vectors are searched on as few `gpus` as hold them ("auto"), on "all" of them, or on "none". Raises
    IndexFileError for an index that is incomplete, damaged, of a kind that is not to be had here, belongs
    to another corpus, or does not fit on the GPUs.
    """
    made = manifest.load(folder)
    kind = _kind(made, folder).on_gpus(gpus)
    passages = Corpus.open(_source(made, folder, corpus), layout.offsets_path(folder))
    if len(passages) != made.corpus.passages:
        raise IndexFileError(
            f"the offsets in {folder} are of {len(passages)} passages, but its manifest says "
            f"{made.corpus.passages}; build the index again"
        )
    shards = layout.shards(folder, (range(first, end) for first, end in made.shards))
    info = _info(made, kind, folder)
    return PassageIndex(info, passages, kind.open(passages, shards, made.details), limits)


def served_index(
    folder: str | Path, corpus: str | Path | None = None, verify: bool = False, gpus: str = "auto"
) -> PassageIndex:
    """The retriever "index": an index without limits of its own, for a tool or a server that has some.

    With `verify` every byte of the index and its corpus is compared with what was built, before it is
    opened: damage between the blocks that opening looks at is found by nothing else.

    Raises as `open_index`.
    """
    source = None if corpus is None else Path(corpus)
    if verify:
        manifest.verify(Path(folder), source)
    return open_index(Path(folder), corpus=source, limits=no_limits(), gpus=gpus)


def describe(folder: Path) -> IndexInfo:
    """What an index says about itself, without opening it. Raises IndexFileError."""
    made = manifest.load(folder)
    return _info(made, _kind(made, folder), folder)


def _kind(made: Manifest, folder: Path) -> IndexKind:
    try:
        return index_kind(made.kind)
    except (IndexFileError, SettingsError) as error:
        raise IndexFileError(
            f"the index {folder} is of a kind that cannot be had here ({error}); install what "
            "brings it, or build the index again"
        ) from error


def _info(made: Manifest, kind: IndexKind, folder: Path) -> IndexInfo:
    try:
        described = kind.describe(made.details)
    except IndexFileError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise IndexFileError(
            f"the manifest of the index {folder} does not say what an index of kind {made.kind!r} says "
            f"({type(error).__name__}: {error}); build the index again"
        ) from error
    details = {
        "corpus": made.corpus.path,
        "shards": len(made.shards),
        "bytes": sum(facts.bytes for facts in made.files),
        **described,
    }
    return IndexInfo(made.kind, made.corpus.passages, made.fingerprint, details)


def _source(made: Manifest, folder: Path, corpus: Path | None) -> Path:
    if corpus is None:
        return made.corpus.find(folder)
    if not corpus.is_file() or not made.corpus.is_at(corpus):
        raise IndexFileError(
            f"the index {folder} belongs to another corpus than {corpus}; it was built for "
            f"{made.corpus.path} with {made.corpus.passages} passages"
        )
    return corpus
