"""Open an index: from its folder to a retriever."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prompt_coevo.retrieval.corpus import Corpus
from prompt_coevo.retrieval.errors import IndexFileError, RetrieverError
from prompt_coevo.retrieval.index import layout, manifest
from prompt_coevo.retrieval.index.kinds import WORDS, open_parts
from prompt_coevo.retrieval.index.manifest import Manifest
from prompt_coevo.retrieval.retriever import UNLIMITED, Hit, IndexInfo, Limits, check_search
from prompt_coevo.retrieval.shards import RowSearcher, Shard, ShardOf


class PassageIndex:
    """A retriever that searches an index on this machine."""

    def __init__(
        self, info: IndexInfo, corpus: Corpus, searcher: RowSearcher, limits: Limits | None = None
    ) -> None:
        self._info = info
        self._corpus = corpus
        self._searcher = searcher
        self._limits = limits

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Search, as `Retriever.search`. Raises RetrieverError for a row that the corpus does not have."""
        check_search(queries, k, self._limits)
        return [self._hits(ranking) for ranking in self._searcher.search_rows(queries, k)]

    def info(self) -> IndexInfo:
        """Describe the index, as `Retriever.info`."""
        return self._info

    def close(self) -> None:
        """Close, as `Retriever.close`."""
        self._searcher.close()
        self._corpus.close()

    def _hits(self, ranking: Sequence[tuple[int, float]]) -> list[Hit]:
        if not all(0 <= row < len(self._corpus) for row, _ in ranking):
            raise RetrieverError(
                f"the index found {ranking!r:.80} in a corpus of {len(self._corpus)} passages; build the "
                "index again"
            )
        found = [(self._corpus.passage(row), score) for row, score in ranking]
        return [
            Hit(passage.id, passage.contents, score, rank, passage.fields)
            for rank, (passage, score) in enumerate(found, 1)
        ]


def open_index(
    folder: Path,
    *,
    corpus: Path | None = None,
    limits: Limits | None = None,
    gpus: str = "auto",
    shard: int | None = None,
) -> PassageIndex:
    """Open an index made by `build`; `corpus` is its corpus' new place, if that moved alone.

    Vectors are searched on as few `gpus` as hold them ("auto"), on "all" of them, or on "none". `shard`,
    from 1, opens one shard alone; its scores are those it has in the whole index. Raises IndexFileError for
    an index that is incomplete, damaged, belongs to another corpus, or does not fit on the GPUs, and for a
    shard that it does not have.
    """
    made, passages = open_corpus(folder, corpus)
    shards = layout.shards(folder, (range(first, end) for first, end in made.shards))
    details, info = made.details, _info(made)
    if shard is not None:
        check_shards(made, folder, shard)
        own = slice(shard - 1, shard)
        shards, info = shards[own], _info_of_one(made, shard, shards[own][0])
        details = {part: said if part == WORDS else said[own] for part, said in details.items()}
    searcher = open_parts(passages, shards, details, gpus)
    return PassageIndex(info, passages, searcher, limits)


def open_corpus(folder: Path, corpus: Path | None = None) -> tuple[Manifest, Corpus]:
    """Check an index and open its corpus without its parts. Raises as `open_index`."""
    made = manifest.load(folder)
    passages = Corpus.open(_source(made, folder, corpus), folder / layout.OFFSETS)
    if len(passages) != made.corpus.passages:
        raise IndexFileError(
            f"the offsets in {folder} are of {len(passages)} passages, but its manifest says "
            f"{made.corpus.passages}; build the index again"
        )
    return made, passages


def check_shards(made: Manifest, folder: Path, shard: int = 1) -> None:
    """Raise IndexFileError if this shard of the index cannot be searched alone."""
    if len(made.details) > 1:
        raise IndexFileError(
            f"the shards of {folder} cannot be searched alone, because it is a {made.kind} index, whose "
            "fusion needs all shards of both parts; build a bm25 and a dense index and join their servers "
            "by docs/examples/hybrid_retriever.py"
        )
    if not 1 <= shard <= len(made.shards):
        raise IndexFileError(
            f"the index {folder} has the shards 1 to {len(made.shards)}, but no shard {shard}; build it "
            "with more --shards, or name one of these"
        )


def served_index(
    folder: str | Path,
    corpus: str | Path | None = None,
    verify: bool = False,
    gpus: str = "auto",
    shard: int | None = None,
) -> PassageIndex:
    """Make the retriever "index": an index without its own limits, for a tool or a server that has some.

    `verify` compares every byte of the index and its corpus with what was built before opening. Only that
    finds damage between the blocks that opening samples.

    Raises as `open_index`.
    """
    source = None if corpus is None else Path(corpus)
    if verify:
        manifest.verify(Path(folder), source)
    return open_index(Path(folder), corpus=source, limits=UNLIMITED, gpus=gpus, shard=shard)


def describe(folder: Path) -> IndexInfo:
    """Describe an index without opening it. Raises IndexFileError."""
    return _info(manifest.load(folder))


def _info(made: Manifest) -> IndexInfo:
    # The shards' vectors differ in nothing that matters here.
    described = {part: said if part == WORDS else said[0] for part, said in made.details.items()}
    details = {
        "corpus": made.corpus.path,
        "shards": len(made.shards),
        "bytes": sum(facts.bytes for facts in made.files),
        **described,
    }
    return IndexInfo(made.kind, made.corpus.passages, made.fingerprint, details)


def _info_of_one(made: Manifest, number: int, shard: Shard) -> IndexInfo:
    told = ShardOf(made.fingerprint, number, len(made.shards), made.corpus.passages)
    own = (facts.bytes for facts in made.files if facts.name.startswith(f"{shard.folder.name}/"))
    details = {"corpus": made.corpus.path, "bytes": sum(own), **told.details()}
    return IndexInfo(made.kind, len(shard.rows), told.fingerprint, details)


def _source(made: Manifest, folder: Path, corpus: Path | None) -> Path:
    if corpus is None:
        return made.corpus.find(folder)
    if not corpus.is_file() or not made.corpus.is_at(corpus):
        raise IndexFileError(
            f"the index {folder} belongs to another corpus than {corpus}; it was built for "
            f"{made.corpus.path} with {made.corpus.passages} passages"
        )
    return corpus
