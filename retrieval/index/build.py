"""Build an index of a corpus."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from prompt_coevo.retrieval.corpus import (
    Corpus,
    CorpusFacts,
    Progress,
    Steps,
    count_lines,
    write_offsets,
)
from prompt_coevo.retrieval.errors import CorpusError, IndexFileError
from prompt_coevo.retrieval.index import kinds, layout, lock, manifest
from prompt_coevo.retrieval.index.kinds import Request, Stages
from prompt_coevo.retrieval.index.manifest import CorpusReference, FileFacts, Manifest
from prompt_coevo.retrieval.index.room import Plan, plan

__all__ = ["Plan", "Request", "build", "foresee"]


def build(
    corpus: Path,
    folder: Path,
    request: Request | None = None,
    *,
    force: bool = False,
    stages: Stages = lambda name: lambda done, total: None,
    told: Callable[[Plan], None] = lambda plan: None,
) -> Manifest:
    """Build an index in `folder`. A stopped build resumes where that is possible.

    `force` replaces an existing index. `told` is called with the estimate of the build once the corpus was
    read, before anything else happens. Raises CorpusError for an unusable corpus and SettingsError for an
    unavailable analyzer. Raises IndexFileError for what cannot be built, and if the folder holds an index
    or something else, if another process builds there, or if it is not writable or its disk is too small.
    """
    request = request or Request()
    kinds.check(request)
    try:
        _refuse_taken(folder, force)
        folder.mkdir(parents=True, exist_ok=True)
        with lock.held(folder):
            _refuse_taken(folder, force)  # another process may have finished an index by now
            return _build(corpus, folder, request, stages, told)
    except OSError as error:
        raise IndexFileError(
            f"the index {folder} cannot be written: {error.strerror or error}"
            f"{f' ({error.filename})' if error.filename else ''}; "
            "fix that and run the same command again to resume"
        ) from None


def foresee(corpus: Path, folder: Path, request: Request | None = None) -> Plan:
    """Estimate what `build` would take. Counts the corpus's lines without checking them, and writes
    nothing.

    Raises what `build` raises before it begins, except for problems with lines or with the folder.
    """
    request = request or Request()
    kinds.check(request)
    return _planned(folder, request, count_lines(corpus))


def _planned(folder: Path, request: Request, passages: int) -> Plan:
    if passages < request.shards:
        raise CorpusError(f"{passages} passages cannot be cut into {request.shards} shards")
    foreseen = kinds.foresee(request, layout.shard_rows(passages, request.shards))
    return plan(folder, passages, foreseen)


def _build(
    source: Path, folder: Path, request: Request, stages: Stages, told: Callable[[Plan], None]
) -> Manifest:
    """Build under the folder's lock. The manifest comes last: an index without one is unfinished."""
    draft = folder / layout.DRAFT
    facts = write_offsets(source, draft, stages("checking the corpus"))
    planned = _planned(folder, request, facts.passages)
    told(planned)
    planned.refuse_full_disk()
    _make_room(folder, _asked(request, facts))
    draft.replace(folder / layout.OFFSETS)
    corpus = Corpus.open(source, folder / layout.OFFSETS)
    shards = layout.shards(folder, layout.shard_rows(len(corpus), request.shards))
    for shard in shards:
        shard.folder.mkdir(exist_ok=True)
    details = kinds.build(request, corpus, shards, stages, folder / layout.WORK)
    corpus.close()
    made = Manifest(
        kind=request.kind,
        corpus=CorpusReference.to(source, folder, facts),
        files=_file_facts(folder, stages("hashing the index")),
        shards=tuple((shard.rows.start, shard.rows.stop) for shard in shards),
        details=details,
    )
    made.save(folder)
    (folder / layout.REQUEST).unlink()
    return made


def _asked(request: Request, facts: CorpusFacts) -> str:
    """Write the request that identifies a stopped build."""
    asked = {**asdict(request), "corpus": facts.sha256}
    return json.dumps(asked, default=str, sort_keys=True)


def _refuse_taken(folder: Path, force: bool) -> None:
    if (folder / manifest.NAME).exists():
        if not force:
            raise IndexFileError(
                f"{folder} holds an index already; choose another folder, or replace it with --force"
            )
        return
    if folder.exists() and (not folder.is_dir() or layout.strangers(folder)):
        raise IndexFileError(f"{folder} exists but is not an index; choose an empty or new folder")


def _make_room(folder: Path, asked: str) -> None:
    """Keep what a stopped build for the same request left, and remove the rest."""
    path = folder / layout.REQUEST
    unfinished = not (folder / manifest.NAME).exists()
    with suppress(OSError):
        if unfinished and path.read_text("utf-8") == asked:
            return
    layout.clear(folder)
    path.write_text(asked, "utf-8")


def _file_facts(folder: Path, progress: Progress) -> tuple[FileFacts, ...]:
    names = layout.index_files(folder)
    steps = Steps(sum((folder / name).stat().st_size for name in names), progress)
    return tuple(FileFacts.of(folder, name, steps) for name in names)
