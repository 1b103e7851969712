"""Building an index of a corpus."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from prompt_coevo.retrieval.corpus import Corpus, CorpusFacts, Progress, count_lines, write_offsets
from prompt_coevo.retrieval.errors import CorpusError, IndexFileError, RetrieverError
from prompt_coevo.retrieval.index import layout, lock, manifest
from prompt_coevo.retrieval.index.manifest import (
    OWN_FIELDS,
    CorpusReference,
    FileFacts,
    Manifest,
)
from prompt_coevo.retrieval.index.room import Plan, plan
from prompt_coevo.retrieval.kinds import Foreseen, IndexKind, Job, Request, Stages
from prompt_coevo.retrieval.named import index_kind

__all__ = ["Plan", "Request", "Stages", "build", "foresee"]


def build(
    corpus: Path,
    folder: Path,
    request: Request | None = None,
    *,
    force: bool = False,
    stages: Stages = lambda name: lambda done, total: None,
    told: Callable[[Plan], None] = lambda plan: None,
) -> Manifest:
    """Build an index in `folder`. A build that was stopped goes on where that is possible.

    `force` replaces an index that is there. `told` hears what the build will take once the corpus was
    read, before anything else. Raises CorpusError for a corpus that cannot be used, IndexFileError if the
    folder holds an index or something else, another process builds there, it cannot be written to, is on a
    disk that is too small, or for what cannot be built, SettingsError for a kind that cannot be imported.
    """
    request = request or Request()
    kind = _checked_kind(request)
    try:
        return _build(corpus, folder, request, kind, force, stages, told)
    except OSError as error:
        raise IndexFileError(
            f"the index {folder} cannot be written: {error.strerror or error}"
            f"{f' ({error.filename})' if error.filename else ''}; "
            "when that is mended, the same command goes on"
        ) from None


def foresee(corpus: Path, folder: Path, request: Request | None = None) -> Plan:
    """What `build` would take. The corpus's lines are counted, not checked, and nothing is written.

    Raises what `build` raises before it begins, but for what is wrong with lines or with the folder.
    """
    request = request or Request()
    kind = _checked_kind(request)
    passages = count_lines(corpus)
    return plan(folder, passages, _foreseen(kind, request, passages))


def _checked_kind(request: Request) -> IndexKind:
    kind = index_kind(request.kind)
    if request.shards < 1:
        raise IndexFileError(f"an index has one shard or more, but not {request.shards}")
    kind.check(request)
    return kind


def _foreseen(kind: IndexKind, request: Request, passages: int) -> Foreseen | None:
    if passages < request.shards:
        raise CorpusError(f"{passages} passages cannot be cut into {request.shards} shards")
    return kind.foresee(request, layout.shard_rows(passages, request.shards))


def _build(
    source: Path,
    folder: Path,
    request: Request,
    kind: IndexKind,
    force: bool,
    stages: Stages,
    told: Callable[[Plan], None],
) -> Manifest:
    _refuse_taken(folder, force)
    folder.mkdir(parents=True, exist_ok=True)
    with lock.held(folder):
        _refuse_taken(folder, force)  # there may be an index by now
        return _build_alone(source, folder, request, kind, stages, told)


def _build_alone(
    source: Path,
    folder: Path,
    request: Request,
    kind: IndexKind,
    stages: Stages,
    told: Callable[[Plan], None],
) -> Manifest:
    draft = layout.draft_path(folder)
    facts = write_offsets(source, draft, stages("checking the corpus"))
    planned = plan(folder, facts.passages, _foreseen(kind, request, facts.passages))
    told(planned)
    planned.refuse_full_disk()
    _make_room(folder, _asked(request, facts))
    draft.replace(layout.offsets_path(folder))
    corpus = Corpus.open(source, layout.offsets_path(folder))
    shards = layout.shards(folder, layout.shard_rows(len(corpus), request.shards))
    for shard in shards:
        shard.folder.mkdir(exist_ok=True)
    details = kind.build(Job(corpus, shards, request, stages, layout.work_folder(folder)))
    corpus.close()
    made = Manifest(
        kind=request.kind,
        corpus=CorpusReference.to(source, folder, facts),
        files=_file_facts(folder, stages("hashing the index")),
        shards=tuple((shard.rows.start, shard.rows.stop) for shard in shards),
        details=_as_json(details, request.kind),
    )
    made.save(folder)
    layout.request_path(folder).unlink()
    return made


def _asked(request: Request, facts: CorpusFacts) -> dict[str, Any]:
    """What a stopped build is known by. What is not given leaves it as it was when nobody could.

    On other devices it goes on.
    """
    asked = {**asdict(request), "corpus": facts.sha256}
    del asked["devices"]
    later = ("options", "analyzer", "analyzer_options")
    return {name: value for name, value in asked.items() if value or name not in later}


def _as_json(details: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """As they will be read back. Raises RetrieverError for what the manifest cannot hold."""
    try:
        held: dict[str, Any] = json.loads(json.dumps(dict(details)))
    except (TypeError, ValueError) as error:
        raise RetrieverError(
            f"the index kind {kind!r} was built, but its build returned what JSON cannot hold ({error}); "
            "it must return a dict of texts, numbers and lists"
        ) from None
    if taken := OWN_FIELDS & held.keys():
        raise RetrieverError(
            f"the index kind {kind!r} was built, but its build returned {', '.join(sorted(taken))}, which "
            "the manifest itself says; it must choose other names"
        )
    return held


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
