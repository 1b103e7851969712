"""Check the estimate and the refusals before a build begins."""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers.passages import write_corpus
from prompt_coevo.retrieval.dense.estimate import Foreseen
from prompt_coevo.retrieval.errors import CorpusError, IndexFileError
from prompt_coevo.retrieval.index import kinds, layout, manifest, room
from prompt_coevo.retrieval.index.build import Request, build, foresee
from prompt_coevo.retrieval.shards import Shard

Usage = namedtuple("Usage", ["total", "used", "free"])


KIND = Request(shards=2)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the estimate: an index takes a thousand bytes a passage."""

    def foresee(request: Request, shards: Sequence[range]) -> Foreseen:
        size = 1000 * sum(map(len, shards))
        return Foreseen("numbers", {"numbers": size}, 2 * size, size)

    def build(request: Request, corpus: Any, shards: Sequence[Shard], *_: Any) -> dict[str, Any]:
        for shard in shards:
            (shard.folder / "numbers").write_bytes(bytes(1000 * len(shard.rows)))
        return {"bm25": {}}

    monkeypatch.setattr(kinds, "foresee", foresee)
    monkeypatch.setattr(kinds, "build", build)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus.jsonl", 20)


def with_free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda place: Usage(10**9, 0, free))


def test_a_plan_is_told_before_a_build_begins(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "index"
    seen: list[room.Plan] = []

    def told(planned: room.Plan) -> None:
        assert not (folder / layout.REQUEST).exists()
        seen.append(planned)

    build(corpus, folder, KIND, told=told)
    (planned,) = seen
    assert (planned.passages, planned.disk) == (20, 20_000 + 8 * 21)
    first, *parts, memory, disk = planned.lines()
    assert (first, parts) == ("20 passages: numbers", ["  numbers: 20.0 kB"])
    assert memory.startswith("  memory, at most: 40.0 kB (")
    assert disk.startswith("  disk, at most: 20.2 kB (")


def test_the_same_is_foreseen_without_building(corpus: Path, tmp_path: Path) -> None:
    planned = foresee(corpus, tmp_path / "deep" / "index", KIND)
    assert (planned.passages, planned.disk) == (20, 20_000 + 8 * 21)
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"]
    with pytest.raises(CorpusError, match="20 passages cannot be cut into 21 shards"):
        foresee(corpus, tmp_path, Request(shards=21))
    with pytest.raises(CorpusError, match="cannot be read"):
        foresee(tmp_path / "none", tmp_path, KIND)


@pytest.mark.parametrize("force", [False, True])
def test_a_disk_that_is_too_small_is_refused_before_anything_is_lost(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    folder = tmp_path / "index"
    made = build(corpus, folder, KIND) if force else None
    larger = write_corpus(tmp_path / "larger.jsonl", 60)
    with_free(monkeypatch, 30_000)
    with pytest.raises(
        IndexFileError, match=r"takes up to 60\.5 kB on its disk, where [35]0\.\d kB"
    ):
        build(larger, folder, KIND, force=force)
    if force:
        assert manifest.verify(folder) == made


def test_what_lies_there_already_counts_as_free(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "index"
    build(corpus, folder, KIND)
    with_free(monkeypatch, 5_000)
    with pytest.raises(IndexFileError, match="disk"):
        build(corpus, tmp_path / "other", KIND)
    held = layout.bytes_held(folder)
    assert held == 20_000 + (folder / layout.OFFSETS).stat().st_size
    assert build(corpus, folder, KIND, force=True)
    os.link(corpus, folder / "shard-000" / "linked")
    (folder / "shard-000" / "by_name").symlink_to(corpus)
    assert layout.bytes_held(folder) == held


def test_memory_that_is_too_small_is_known(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for free, fits in ((39_999, False), (40_000, True), (None, True)):
        monkeypatch.setattr(room, "free_memory", lambda free=free: free)
        planned = foresee(corpus, tmp_path, KIND)
        assert planned.fits_memory == fits
        assert ("an unknown amount free" in planned.lines()[-2]) == (free is None)
