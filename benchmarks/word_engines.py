"""The engines that `retrieval_index.py` and `retrieval_wordnet.py` compare.

Each splits texts itself, with English stems. bm25s, Lucene and ours have Pyserini's parameters; tantivy's
are fixed, at k1 1.2 and b 0.75. Texts are indexed without positions and not stored. Ours also reads the
passages that it finds. An engine's files lie in a folder of its name, next to the corpus.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from helpers.lucene import lucene

Found: TypeAlias = list[list[str]]
Search: TypeAlias = Callable[[Sequence[str]], Found]

ONE_THREAD_MB = 128  # for tantivy's writer


def texts_of(folder: Path) -> Iterator[str]:
    with (folder / "corpus.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["contents"]


def build_ours(folder: Path, analyzer: str) -> None:
    from prompt_coevo.retrieval.index.build import Request, build

    name = "bm25" if analyzer == "english" else f"bm25-{analyzer}"
    build(folder / "corpus.jsonl", folder / name, Request(analyzer=analyzer), force=True)


def open_ours(folder: Path, k: int, name: str) -> Search:
    from prompt_coevo.retrieval.index.open import open_index

    index = open_index(folder / name)
    return lambda asked: [[hit.id for hit in hits] for hits in index.search(asked, k)]


def bm25s_words(texts: Sequence[str]) -> Any:
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)


def build_bm25s(folder: Path) -> None:
    import bm25s

    from prompt_coevo.retrieval.bm25.build import K1, B

    index = bm25s.BM25(method="lucene", k1=K1, b=B)
    index.index(bm25s_words(list(texts_of(folder))), show_progress=False)
    index.save(folder / "bm25s")


def open_bm25s(folder: Path, k: int) -> Search:
    import bm25s

    index = bm25s.BM25.load(folder / "bm25s", mmap=True)
    index.backend = "numba"

    def search(asked: Sequence[str]) -> Found:
        found = index.retrieve(bm25s_words(list(asked)), k=k, show_progress=False, n_threads=0)
        return [[str(row) for row in rows] for rows in found.documents.tolist()]

    return search


def build_tantivy(folder: Path) -> None:
    import tantivy

    fields = tantivy.SchemaBuilder()
    fields.add_text_field("text", tokenizer_name="en_stem", index_option="freq")
    fields.add_unsigned_field("row", fast=True)
    (folder / "tantivy").mkdir()
    index = tantivy.Index(fields.build(), path=str(folder / "tantivy"))
    writer = index.writer(ONE_THREAD_MB * 1_000_000, 1)
    for row, text in enumerate(texts_of(folder)):
        document = tantivy.Document()
        document.add_text("text", text)
        document.add_unsigned("row", row)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()


def open_tantivy(folder: Path, k: int) -> Search:
    import tantivy

    index = tantivy.Index.open(str(folder / "tantivy"))
    searcher = index.searcher()

    def rows(text: str) -> list[str]:
        bag = " ".join(re.findall(r"\w+", text.lower()))  # without the query language's signs
        query, _ = index.parse_query_lenient(bag, ["text"])
        # With a count, it would have to visit every passage that has one of the words.
        hits = searcher.search(query, k, count=False).hits
        return [str(row) for row in searcher.fast_field_values("row", [at for _, at in hits])]

    return lambda asked: [rows(text) for text in asked]


def build_lucene(folder: Path) -> None:
    lines = (" ".join(text.split()) for text in texts_of(folder))
    lucene("index", folder / "lucene", lines=lines)


def open_lucene(folder: Path, k: int) -> Search:
    """Search in a process per call: `retrieval_index.py` measures inside of it."""

    def search(asked: Sequence[str]) -> Found:
        lines = [" ".join(query.split()) for query in asked]
        found = lucene("search", folder / "lucene", str(k), lines=lines)
        return [[pair.partition(":")[0] for pair in line.split()] for line in found]

    return search


BUILDERS: dict[str, Callable[[Path], None]] = {
    "bm25": lambda folder: build_ours(folder, "english"),
    "bm25-lucene": lambda folder: build_ours(folder, "lucene"),
    "bm25s": build_bm25s,
    "tantivy": build_tantivy,
    "lucene": build_lucene,
}
OPENERS: dict[str, Callable[[Path, int], Search]] = {
    "bm25": lambda folder, k: open_ours(folder, k, "bm25"),
    "bm25-lucene": lambda folder, k: open_ours(folder, k, "bm25-lucene"),
    "bm25s": open_bm25s,
    "tantivy": open_tantivy,
    "lucene": open_lucene,
}
