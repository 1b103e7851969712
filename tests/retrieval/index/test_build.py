from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.passages import passages, queries, write_corpus
from prompt_coevo.retrieval.errors import CorpusError, IndexFileError
from prompt_coevo.retrieval.index import layout, lock, manifest
from prompt_coevo.retrieval.index.build import Plan, Request, build
from prompt_coevo.retrieval.index.open import open_index


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus.jsonl", 300)


def test_what_is_built_can_be_searched(corpus: Path, tmp_path: Path) -> None:
    made = build(corpus, tmp_path / "deep" / "index")
    index = open_index(tmp_path / "deep" / "index")
    query, right = queries(1, 300)[0]
    hits = index.search([query, query], 3)[1]
    assert [hit.rank for hit in hits] == [1, 2, 3]
    assert hits[0].id == right
    assert hits[0].contents == list(passages(300))[int(right)]["contents"]
    assert hits[0].score >= hits[1].score
    told = index.info()
    assert (told.kind, told.passages, told.fingerprint) == ("bm25", 300, made.fingerprint)
    index.close()


def test_the_same_build_gives_the_same_index(corpus: Path, tmp_path: Path) -> None:
    one, two = (build(corpus, tmp_path / name, Request(shards=2)) for name in "ab")
    assert one.files == two.files
    assert one.fingerprint == two.fingerprint


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (Request("sparse"), "kind 'sparse'; choose bm25, dense or hybrid, or write a retriever"),
        (Request("nowhere:KIND"), "kind 'nowhere:KIND'; choose bm25, dense or hybrid, or write"),
        (Request(shards=0), "needs at least one shard, but 0 were requested"),
        (Request(faiss_file=Path("x")), "has no effect on a bm25 index"),
        (Request(encoder="bge"), "encoder has no effect on a bm25 index; ask for dense or hybrid"),
        (Request(index="HNSW32,SQ8"), "index has no effect on a bm25 index"),
        (Request("dense", faiss_file=Path("x"), shards=2), "leave shards at 1"),
    ],
)
def test_what_cannot_be_built_is_refused(
    corpus: Path, tmp_path: Path, request_: Request, problem: str
) -> None:
    with pytest.raises(IndexFileError, match=problem):
        build(corpus, tmp_path / "index", request_)
    assert not (tmp_path / "index").exists()


def test_more_shards_than_passages_are_refused(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="300 passages cannot be cut into 301 shards"):
        build(corpus, tmp_path / "index", Request(shards=301))
    assert build(corpus, tmp_path / "index", Request(shards=300))


def test_an_index_is_replaced_only_if_that_is_asked_for(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    first = build(corpus, folder, Request(shards=3))
    other = write_corpus(tmp_path / "other.jsonl", 20, seed=1)
    with pytest.raises(IndexFileError, match=r"holds an index already; .* --force"):
        build(other, folder)
    assert manifest.verify(folder) == first
    made = build(other, folder, force=True)
    assert manifest.verify(folder) == made
    assert {path.name for path in folder.iterdir()} == {"manifest.json", "offsets.npy", "shard-000"}


def test_two_builds_in_one_folder_do_not_mix(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would write into the other's files, and the last one would hash the mixture."""
    monkeypatch.setattr(lock, "_PATIENCE_S", 0.0)
    folder = tmp_path / "index"
    other = write_corpus(tmp_path / "other.jsonl", 20, seed=1)

    def build_meanwhile(plan: Plan) -> None:
        with pytest.raises(IndexFileError, match=r"another build is under way in .*process \d+ on"):
            build(other, folder)
        with pytest.raises(IndexFileError, match="another build is under way"):
            build(other, folder, force=True)

    made = build(corpus, folder, told=build_meanwhile)
    assert (made.corpus.passages, manifest.verify(folder)) == (300, made)
    assert {path.name for path in folder.iterdir()} == {"manifest.json", "offsets.npy", "shard-000"}


def test_who_waited_for_another_build_finds_its_index(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "index"
    first = build(corpus, tmp_path / "elsewhere")
    folder.mkdir()
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        (tmp_path / "elsewhere" / manifest.NAME).rename(folder / manifest.NAME)
        other.__exit__(None, None, None)

    monkeypatch.setattr(lock.time, "sleep", wait)
    other = lock.held(folder)
    other.__enter__()
    with pytest.raises(IndexFileError, match="holds an index already"):
        build(corpus, folder)
    assert len(waited) == 1
    assert manifest.read(folder) == first


def test_a_full_disk_is_one_sentence(corpus: Path, tmp_path: Path) -> None:
    """The process limits its own file size, which fails like a full disk."""
    code = (
        "import resource, sys; from pathlib import Path; "
        "from prompt_coevo.retrieval.index.build import build; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
        "build(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-P", "-c", code, str(corpus), str(tmp_path / "index")]
    run = subprocess.run(command, capture_output=True, text=True)
    last = run.stderr.splitlines()[-1]
    assert (
        "cannot be written: File too large; fix that and run the same command again to resume"
        in last
    )
    assert build(corpus, tmp_path / "index") == manifest.verify(tmp_path / "index")


def test_an_index_is_not_lost_for_a_corpus_that_cannot_be_used(
    corpus: Path, tmp_path: Path
) -> None:
    made = build(corpus, tmp_path / "index")
    (tmp_path / "bad.jsonl").write_text("{}\n")
    with pytest.raises(CorpusError):
        build(tmp_path / "bad.jsonl", tmp_path / "index", force=True)
    assert manifest.verify(tmp_path / "index") == made


@pytest.mark.parametrize("force", [False, True])
def test_other_peoples_files_are_left_alone(corpus: Path, tmp_path: Path, force: bool) -> None:
    folder = tmp_path / "index"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(IndexFileError, match=r"exists but is not an index; choose an empty"):
        build(corpus, folder, force=force)
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


def test_a_place_that_cannot_be_written_is_named(corpus: Path) -> None:
    with pytest.raises(IndexFileError, match=r"cannot be written: Not a directory \(.*corpus"):
        build(corpus, corpus / "index")


class Stopped(Exception):
    pass


def stop_in(stage: str) -> Callable[[str], Callable[[int, int], None]]:
    def stages(name: str) -> Callable[[int, int], None]:
        def progress(done: int, total: int) -> None:
            if name == stage:
                raise Stopped

        return progress

    return stages


@pytest.mark.parametrize("stage", ["checking the corpus", "building bm25", "hashing the index"])
def test_a_build_that_was_stopped_is_no_index_and_goes_on(
    corpus: Path, tmp_path: Path, stage: str
) -> None:
    folder = tmp_path / "index"
    with pytest.raises(Stopped):
        build(corpus, folder, stages=stop_in(stage))
    with pytest.raises(IndexFileError, match="holds no complete index"):
        open_index(folder)
    made = build(corpus, folder)
    assert made.fingerprint == build(corpus, tmp_path / "clean").fingerprint
    assert not (folder / layout.REQUEST).exists()


def test_nothing_of_another_build_is_kept(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    with pytest.raises(Stopped):
        build(corpus, folder, Request(shards=5), stages=stop_in("hashing the index"))
    assert build(corpus, folder, Request(shards=2)).fingerprint == (
        build(corpus, tmp_path / "clean", Request(shards=2)).fingerprint
    )


KILLED = """
import os, signal, sys
from pathlib import Path
from prompt_coevo.retrieval.index import layout
from prompt_coevo.retrieval.index.build import build
corpus, folder = map(Path, sys.argv[1:])
def kill(done, total):
    if 0 < done < total and (folder / layout.WORK).exists():
        os.kill(os.getpid(), signal.SIGKILL)
build(corpus, folder, stages=lambda stage: kill)
"""


def test_a_build_that_is_killed_goes_on(tmp_path: Path) -> None:
    corpus, folder = write_corpus(tmp_path / "corpus.jsonl", 60_000), tmp_path / "index"
    run = subprocess.run([sys.executable, "-P", "-c", KILLED, str(corpus), str(folder)])
    assert run.returncode == -signal.SIGKILL
    assert (folder / layout.WORK).exists()
    with pytest.raises(IndexFileError, match="holds no complete index"):
        open_index(folder)
    build(corpus, folder)
    assert manifest.verify(folder)
    assert not (folder / layout.WORK).exists()


def test_a_hybrid_index_has_both_and_survives_a_stop(tmp_path: Path) -> None:
    for package in ("faiss", "torch", "transformers"):
        pytest.importorskip(package)
    from helpers.tiny_encoder import save_tiny_encoder

    corpus = write_corpus(tmp_path / "corpus.jsonl", 200)
    texts = (passage["contents"] for passage in passages(200))
    encoder = save_tiny_encoder(tmp_path / "encoder", texts)
    request = Request("hybrid", encoder=f"mean:{encoder}", index="Flat", shards=2)
    with pytest.raises(Stopped):
        build(corpus, tmp_path / "index", request, stages=stop_in("building bm25"))
    made = build(corpus, tmp_path / "index", request)
    assert made == manifest.verify(tmp_path / "index")
    assert made.details.keys() == {"bm25", "dense"}
    assert len(made.details["dense"]) == 2
    whole = Request("hybrid", encoder=f"mean:{encoder}", index="Flat")
    build(corpus, tmp_path / "whole", whole)
    asked = queries(30, 200)
    found = open_index(tmp_path / "index").search([query for query, _ in asked], 3)
    right = [
        own_id in [hit.id for hit in hits] for hits, (_, own_id) in zip(found, asked, strict=True)
    ]
    assert sum(right) > 5
    expected = open_index(tmp_path / "whole").search([query for query, _ in asked], 3)
    assert [[hit.id for hit in hits] for hits in found] == [
        [hit.id for hit in hits] for hits in expected
    ]
    shutil.rmtree(tmp_path / "encoder")
    with pytest.raises(ValueError, match="encoder"):
        open_index(tmp_path / "index")
