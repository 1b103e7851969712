"""Check `prompt-coevo retrieval push` with Chroma's real server."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.chroma_server import COUNT, ROWS, ChromaProcess, write_rows
from helpers.passages import write_corpus
from helpers.retrieval_server import free_port
from helpers.scripted_http import Reply, scripted
from prompt_coevo.errors import CoevoError, SettingsError
from prompt_coevo.retrieval.chroma.push import Pushed, push
from prompt_coevo.retrieval.chroma.retriever import Chroma
from prompt_coevo.retrieval.chroma.server import ChromaServer
from prompt_coevo.retrieval.errors import (
    CorpusError,
    IndexFileError,
    RetrieverError,
    RetrieverUnavailable,
)
from prompt_coevo.retrieval.index.build import Request, build

PUSH = "from prompt_coevo.cli import main; main()"
# Before its third batch this one sends a part of it, as if the server had stored no more, and dies.
DYING_PUSH = f"""
import os, signal
from prompt_coevo.retrieval.chroma.server import ChromaServer
whole, calls = ChromaServer.upsert, []
def upsert(self, collection, rows):
    calls.append(1)
    whole(self, collection, {{name: part[:40] for name, part in rows.items()}} if calls[1:] else rows)
    if calls[1:]:
        os.kill(os.getpid(), signal.SIGKILL)
ChromaServer.upsert = upsert
{PUSH}
"""


def run(*arguments: str | Path, code: str = PUSH) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", code, "retrieval", "push", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def one_sentence(error: Any) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert len(text) < 500
    return text


def check_rows(chroma: ChromaProcess, name: str, vectors: Any, *, error: float = 0.0) -> None:
    """Check that the collection has all rows, each with its vector, and nothing else."""
    found = chroma.rows(name)
    assert found.keys() == {row["id"] for row in ROWS}
    for row, vector in zip(ROWS, vectors, strict=True):
        assert found[row["id"]]["contents"] == row["contents"]
        stored = np.array(found[row["id"]]["vector"], np.float32)
        assert np.abs(stored - vector).max() <= error


@pytest.fixture(scope="module")
def vectors(index: Path) -> Any:
    (file,) = index.glob("*/dense/vectors.npy")
    return np.load(file)


def test_a_killed_push_goes_on_where_it_was(
    chroma: ChromaProcess, index: Path, vectors: Any
) -> None:
    """Kill it twice in the middle of a batch. Until it is complete the retriever refuses the collection."""
    command = (index, "--to", chroma.address, "--collection", "killed")
    options = {"url": chroma.address, "collection": "killed"}
    for there in (290, 330):  # the first batch, and 40 of the next; then it began 250 earlier
        assert run(*command, code=DYING_PUSH).returncode == -signal.SIGKILL
        assert len(chroma.rows("killed")) == there
        with pytest.raises(RetrieverError, match=f"has {there} of {COUNT} rows") as error:
            Chroma(**options)
        assert "its push was not finished" in one_sentence(error)
    done = run(*command)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"killed: {COUNT} rows, {COUNT - 80} of them stored now\n"
    check_rows(chroma, "killed", vectors)
    again = run(*command)
    assert again.stdout == f"killed: {COUNT} rows, 0 of them stored now\n"
    retriever = Chroma(**options)
    assert retriever.info().passages == COUNT
    retriever.close()


def test_a_server_that_is_killed_meanwhile(
    chroma: ChromaProcess, index: Path, vectors: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = ChromaServer.upsert, []

    def upsert(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            chroma.kill()
        whole(*arguments)

    monkeypatch.setattr(ChromaServer, "upsert", upsert)
    with pytest.raises(RetrieverUnavailable, match="cannot be reached") as error:
        push(index, chroma.address, "server-killed")
    assert chroma.address in one_sentence(error)
    chroma.start()
    told: list[tuple[str, int, int]] = []

    def stages(name: str) -> Any:
        return lambda done, total: told.append((name, done, total))

    assert push(index, chroma.address, "server-killed", stages=stages).rows == COUNT
    check_rows(chroma, "server-killed", vectors)
    assert [one for one in told if one[1] == COUNT] == [
        ("checking", COUNT, COUNT),
        ("pushing", COUNT, COUNT),
    ]


@pytest.mark.parametrize(
    ("kind", "type_", "shards"),
    [
        ("hybrid", "Flat", 3),
        ("dense", "SQfp16", 2),
        ("dense", "HNSW32,Flat", 1),
        ("dense", "IVF4,Flat", 1),
    ],
)
def test_every_type_with_exact_vectors(
    chroma: ChromaProcess,
    corpus: Path,
    encoder: str,
    vectors: Any,
    tmp_path: Path,
    kind: str,
    type_: str,
    shards: int,
) -> None:
    build(corpus, tmp_path / "typed", Request(kind, encoder, type_, shards=shards))
    name = re.sub(r"\W", "-", type_)
    assert push(tmp_path / "typed", chroma.address, name) == Pushed(name, COUNT, 0)
    check_rows(chroma, name, vectors, error=2**-10 if type_ == "SQfp16" else 0.0)


def test_an_adopted_file_by_the_name_of_the_folder(
    chroma: ChromaProcess, corpus: Path, encoder: str, vectors: Any, tmp_path: Path
) -> None:
    """Search-R1's file is pushed without embedding, also where the corpus moved alone."""
    import faiss

    made = faiss.IndexFlatIP(vectors.shape[1])
    made.add(vectors)
    faiss.write_index(made, str(tmp_path / "e5_Flat.index"))
    moved = tmp_path / "moved.jsonl"
    moved.write_bytes(corpus.read_bytes())
    request = Request("dense", encoder, faiss_file=tmp_path / "e5_Flat.index")
    build(moved, tmp_path / "adopted", request)
    moved = moved.rename(tmp_path / "again.jsonl")
    code = f"import sys; sys.modules['torch'] = None; {PUSH}"
    done = run(tmp_path / "adopted", "--to", chroma.address, "--corpus", moved, code=code)
    assert done.stdout == f"adopted: {COUNT} rows, {COUNT} of them stored now\n", done.stderr
    check_rows(chroma, "adopted", vectors)


@pytest.mark.parametrize("type_", ["SQ8", "HNSW32,SQ8", "IVF4,PQ4x4"])
def test_rough_vectors_are_refused(corpus: Path, encoder: str, tmp_path: Path, type_: str) -> None:
    build(corpus, tmp_path / "rough", Request("dense", encoder, type_))
    with pytest.raises(IndexFileError, match="keeps vectors only roughly") as error:
        push(tmp_path / "rough", "http://127.0.0.1:1")
    one_sentence(error)


def test_an_index_of_words_is_refused(corpus: Path, tmp_path: Path) -> None:
    build(corpus, tmp_path / "words")
    refused = run(tmp_path / "words", "--to", "http://127.0.0.1:1")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"error: the index {tmp_path / 'words'} is one of words")
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("row", "problem"),
    [({"contents": " \n"}, "line 3 has no text"), ({"id": ""}, "line 3 has an empty id")],
)
def test_a_row_that_cannot_be_stored_is_refused_before_the_first(
    chroma: ChromaProcess, encoder: str, tmp_path: Path, row: dict[str, str], problem: str
) -> None:
    corpus = write_rows(tmp_path / "corpus.jsonl", [*ROWS[:2], {**ROWS[2], **row}])
    build(corpus, tmp_path / "unfit", Request("dense", encoder, "Flat"))
    for force in (False, True):
        with pytest.raises(CorpusError, match=f"{corpus}, {problem}") as error:
            push(tmp_path / "unfit", chroma.address, force=force)
        one_sentence(error)
        assert ("unfit" in chroma.names()) is force, "nothing was made or deleted"
        if not force:
            chroma.make("unfit")
    chroma.ask("DELETE", f"{chroma.collections}/unfit")


@pytest.fixture(scope="module")
def small(encoder: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an index of 30 rows."""
    folder = tmp_path_factory.mktemp("small")
    build(
        write_corpus(folder / "corpus.jsonl", 30),
        folder / "small",
        Request("dense", encoder, "Flat"),
    )
    return folder / "small"


def hold_another_index(chroma: ChromaProcess, small: Path, index: Path) -> None:
    push(index, chroma.address, "taken")


def hold_rows_of_its_own(chroma: ChromaProcess, small: Path, index: Path) -> None:
    chroma.make("taken", np.eye(128)[:3], documents=["a", "b", "c"])


def compare_by_distance(chroma: ChromaProcess, small: Path, index: Path) -> None:
    chroma.make("taken", space="l2")


def have_another_length(chroma: ChromaProcess, small: Path, index: Path) -> None:
    chroma.make("taken", np.eye(7), documents=list("abcdefg"))


@pytest.mark.parametrize(
    ("take", "problem"),
    [
        (hold_another_index, "holds another index"),
        (hold_rows_of_its_own, "was not made by a push"),
        (compare_by_distance, "compares by 'l2', not by the inner product, 'ip'"),
        (have_another_length, "has vectors of 7 numbers, but the index of 128"),
    ],
)
def test_a_collection_that_holds_anything_else_is_replaced_by_force_alone(
    chroma: ChromaProcess,
    small: Path,
    index: Path,
    take: Callable[[ChromaProcess, Path, Path], None],
    problem: str,
) -> None:
    take(chroma, small, index)
    before = chroma.rows("taken")
    with pytest.raises(RetrieverError, match=re.escape(problem)) as error:
        push(small, chroma.address, "taken")
    assert "name another with --collection, or replace it with --force" in one_sentence(error)
    assert chroma.rows("taken") == before
    assert push(small, chroma.address, "taken", force=True) == Pushed("taken", 30, 0)
    assert chroma.rows("taken").keys() == {str(number) for number in range(30)}
    chroma.ask("DELETE", f"{chroma.collections}/taken")


def test_a_killed_push_of_deleted_rows_goes_on(
    chroma: ChromaProcess, index: Path, vectors: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of rows does not say which are missing."""
    push(index, chroma.address, "holed")
    place = f"{chroma.collections}/{chroma.facts('holed')['id']}/delete"
    chroma.ask("POST", place, {"ids": [ROWS[300]["id"]]})

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ChromaServer, "upsert", stopped)
        with pytest.raises(KeyboardInterrupt):
            push(index, chroma.address, "holed")
    assert push(index, chroma.address, "holed") == Pushed("holed", COUNT, 0)
    check_rows(chroma, "holed", vectors)


def test_what_others_did_to_a_pushed_collection(chroma: ChromaProcess, small: Path) -> None:
    """Deleted rows are stored again, even the first; a row that was added is refused."""
    push(small, chroma.address, "touched")
    place = f"{chroma.collections}/{chroma.facts('touched')['id']}/delete"
    chroma.ask("POST", place, {"ids": ["0", "17"]})
    assert push(small, chroma.address, "touched") == Pushed("touched", 30, 0)
    assert len(chroma.rows("touched")) == 30
    chroma.add("touched", np.ones((1, 128)), documents=["a stranger"])
    with pytest.raises(RetrieverError, match="has 31 rows after all 30 were stored") as error:
        push(small, chroma.address, "touched")
    one_sentence(error)


def test_another_database(chroma: ChromaProcess, small: Path) -> None:
    tenants = f"{chroma.address}/api/v2/tenants"
    chroma.ask("POST", tenants, {"name": "lab"})
    chroma.ask("POST", f"{tenants}/lab/databases", {"name": "wikis"})
    place = {"tenant": "lab", "database": "wikis"}
    assert push(small, f"{chroma.address}/", **place) == Pushed("small", 30, 0)
    named = ("--tenant", "lab", "--database", "wikis", "--force")
    done = run(small, "--to", chroma.address, *named)
    assert done.stdout == "small: 30 rows, 30 of them stored now\n", done.stderr
    retriever = Chroma(chroma.address, "small", **place)
    assert retriever.info().passages == 30
    retriever.close()
    with pytest.raises(CoevoError, match=r"Database \[no-such\] does not exist") as error:
        push(small, chroma.address, tenant="lab", database="no-such")
    one_sentence(error)


def test_places_that_are_no_server(small: Path, chroma: ChromaProcess) -> None:
    for url in (
        "127.0.0.1:8000",
        "ftp://a",
        "http://",
        "http://a?b",
        "http://a:x",
        f"{chroma.address}#x",
    ):
        with pytest.raises(SettingsError, match="is no address of a Chroma server") as wrong:
            push(small, url)
        one_sentence(wrong)
    with pytest.raises(SettingsError, match=r"'\.\.' is no name"):
        push(small, chroma.address, "..")
    with pytest.raises(RetrieverError, match="refuses the request.*3-512 characters"):
        push(small, chroma.address, "a b")
    refused = run(small, "--to", f"http://127.0.0.1:{free_port()}")
    assert refused.returncode == 2
    assert re.fullmatch(
        r"error: Chroma's server http://\S+ cannot be reached: .*\n", refused.stderr
    )
    with scripted(lambda path, body: Reply(b"<html>", 404)) as other:
        with pytest.raises(RetrieverError, match=f"what answers at {other.address} is no Chroma"):
            push(small, other.address)
        assert other.requests == [], "nothing is sent to a stranger"


def test_no_passage_is_lost_on_the_way(chroma: ChromaProcess, index: Path, vectors: Any) -> None:
    """Every row comes back as it is in the corpus, odd fields included."""
    push(index, chroma.address, "whole")
    retriever = Chroma(chroma.address, "whole")
    found = retriever.search([row["contents"].replace("\n", " ") for row in ROWS[:40]], 1)
    for row, (hit,) in zip(ROWS[:40], found, strict=True):
        assert {"id": hit.id, "contents": hit.contents, **hit.fields} == row
    retriever.close()
