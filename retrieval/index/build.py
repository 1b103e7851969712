"""Building an index of a corpus."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from prompt_coevo.retrieval.corpus import Corpus, Progress, write_offsets
from prompt_coevo.retrieval.errors import CorpusError, IndexFileError
from prompt_coevo.retrieval.index import layout, manifest
from prompt_coevo.retrieval.index.manifest import CorpusReference, FileFacts, Manifest

Stages: TypeAlias = Callable[[str], Progress]
"""Told the name of each stage of a build, gives the function that follows it."""


@dataclass(frozen=True)
class Request:
    """What to build.

    `kind` is "bm25", "dense", or "hybrid" for both. `encoder` and `index` are for the latter two:
    see `prompt_coevo.retrieval.dense.encoders` and `.dense`. `faiss_file` is an index of the corpus that
    Search-R1 made with that encoder, adopted as it is. `shards` cuts the corpus into ranges of rows.
    """

    kind: str = "bm25"
    encoder: str = "e5"
    index: str = "auto"
    faiss_file: Path | None = None
    shards: int = 1

    def check(self) -> None:
        """Raise IndexFileError for what cannot be built."""
        if self.kind not in manifest.KINDS:
            known = ", ".join(manifest.KINDS)
            raise IndexFileError(f"there is no index of kind {self.kind!r}; known kinds: {known}")
        if self.shards < 1:
            raise IndexFileError(f"an index has one shard or more, but not {self.shards}")
        if self.faiss_file is not None and self.kind == "bm25":
            raise IndexFileError(
                "a faiss file has no effect on a bm25 index; ask for dense or hybrid"
            )
        if self.faiss_file is not None and self.shards > 1:
            raise IndexFileError("a faiss file is adopted as one index; leave shards at 1 with it")


def build(
    corpus: Path,
    folder: Path,
    request: Request | None = None,
    *,
    force: bool = False,
    stages: Stages = lambda name: lambda done, total: None,
) -> Manifest:
    """Build an index in `folder`. A build that was stopped goes on where that is possible.

    `force` replaces an index that is there. Raises CorpusError for a corpus that cannot be used,
    IndexFileError if the folder holds an index or something else, or cannot be written to.
    """
    request = request or Request()
    request.check()
    try:
        return _build(corpus, folder, request, force, stages)
    except OSError as error:
        raise IndexFileError(
            f"the index {folder} cannot be written: {error.strerror or error}"
            f"{f' ({error.filename})' if error.filename else ''}; "
            "when that is mended, the same command goes on"
        ) from None


def _build(source: Path, folder: Path, request: Request, force: bool, stages: Stages) -> Manifest:
    _refuse_taken(folder, force)
    if request.kind != "bm25":
        _check_dense(request)
    folder.mkdir(parents=True, exist_ok=True)
    draft = layout.draft_path(folder)
    facts = write_offsets(source, draft, stages("checking the corpus"))
    if facts.passages < request.shards:
        raise CorpusError(f"{facts.passages} passages cannot be cut into {request.shards} shards")
    _make_room(folder, {**asdict(request), "corpus": facts.sha256})
    draft.replace(layout.offsets_path(folder))
    corpus = Corpus.open(source, layout.offsets_path(folder))
    rows = layout.shard_rows(len(corpus), request.shards)
    # The vectors come first: they take longest, and a build that is stopped later keeps them.
    dense = _dense(corpus, folder, rows, request, stages) if request.kind != "bm25" else ()
    bm25 = _bm25(corpus, folder, rows, stages) if request.kind != "dense" else None
    corpus.close()
    made = Manifest(
        kind=request.kind,
        corpus=CorpusReference.to(source, folder, facts),
        files=_file_facts(folder, stages("hashing the index")),
        shards=tuple((part.start, part.stop) for part in rows),
        bm25=bm25,
        dense=dense,
    )
    made.save(folder)
    layout.request_path(folder).unlink()
    return made


def _refuse_taken(folder: Path, force: bool) -> None:
    if (folder / manifest.NAME).exists():
        if not force:
            raise IndexFileError(
                f"{folder} holds an index already; choose another folder, or replace it with --force"
            )
        return
    if folder.exists() and (not folder.is_dir() or layout.strangers(folder)):
        raise IndexFileError(
            f"{folder} is there and is no index; choose a folder that is empty or new"
        )


def _check_dense(request: Request) -> None:
    """What is missing should be known before a large corpus is read."""
    from prompt_coevo.retrieval.dense.encoder_recipes import resolve
    from prompt_coevo.retrieval.dense.faiss_package import load_faiss

    load_faiss()
    resolve(request.encoder)


def _make_room(folder: Path, request: Mapping[str, Any]) -> None:
    """Keep what a stopped build for the same request has left, and nothing else."""
    text = json.dumps(request, default=str, sort_keys=True)
    path = layout.request_path(folder)
    unfinished = not (folder / manifest.NAME).exists()
    with suppress(OSError):
        if unfinished and path.read_text("utf-8") == text:
            return
    layout.clear(folder)
    path.write_text(text, "utf-8")


def _bm25(corpus: Corpus, folder: Path, rows: list[range], stages: Stages) -> dict[str, Any]:
    from prompt_coevo.retrieval.bm25.build import Part, build_bm25

    parts = [Part(layout.bm25_folder(folder, number), part) for number, part in enumerate(rows)]
    return build_bm25(corpus, parts, layout.work_folder(folder), stages("building bm25"))


def _dense(
    corpus: Corpus, folder: Path, rows: list[range], request: Request, stages: Stages
) -> tuple[dict[str, Any], ...]:
    from prompt_coevo.retrieval.dense.index import build_dense

    def built(number: int, part: range) -> dict[str, Any]:
        target = layout.dense_folder(folder, number)
        target.mkdir(parents=True, exist_ok=True)
        stage = f"embedding shard {number + 1} of {len(rows)}" if len(rows) > 1 else "embedding"
        return build_dense(
            corpus,
            target,
            encoder=request.encoder,
            index=request.index,
            rows=part,
            faiss_file=request.faiss_file,
            progress=stages(stage),
        )

    return tuple(built(number, part) for number, part in enumerate(rows))


def _file_facts(folder: Path, progress: Progress) -> tuple[FileFacts, ...]:
    names = layout.index_files(folder)
    total = sum((folder / name).stat().st_size for name in names)
    facts: list[FileFacts] = []
    for name in names:
        done = sum(known.bytes for known in facts)
        facts.append(FileFacts.of(folder, name, partial(_shifted, progress, done, total)))
    return tuple(facts)


def _shifted(progress: Progress, before: int, total: int, done: int, _: int) -> None:
    progress(before + done, total)
