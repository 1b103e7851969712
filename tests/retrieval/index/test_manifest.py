from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.passages import write_corpus
from prompt_coevo.retrieval.errors import IndexFileError
from prompt_coevo.retrieval.index import manifest
from prompt_coevo.retrieval.index.build import Request, build
from prompt_coevo.retrieval.index.open import open_index

ROWS = "shard-000/bm25/rows.npy"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Build an index whose largest file is longer than the sampled blocks together."""
    corpus = write_corpus(tmp_path / "home" / "corpus.jsonl", 1000)
    build(corpus, tmp_path / "home" / "index", Request())
    return tmp_path / "home" / "index"


@pytest.fixture(autouse=True)
def home(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_manifest_is_read_back(index: Path) -> None:
    made = manifest.load(index)
    assert made.kind == "bm25"
    assert made.corpus.passages == 1000
    assert made.shards == ((0, 1000),)
    assert made.details["bm25"]["k1"] == 0.9
    assert {facts.name for facts in made.files} >= {"offsets.npy", ROWS}
    assert manifest.verify(index) == made


def test_the_fingerprint_is_of_the_content_alone(index: Path, tmp_path: Path) -> None:
    made = manifest.load(index)
    shutil.copytree(tmp_path / "home", tmp_path / "elsewhere")
    assert manifest.load(tmp_path / "elsewhere" / "index").fingerprint == made.fingerprint
    moved = replace(made, corpus=replace(made.corpus, path="/x", relative="../x"))
    assert moved.fingerprint == made.fingerprint
    said = {**made.details, "bm25": {"k1": 1.0}}
    assert replace(made, details=said).fingerprint != made.fingerprint
    other = build(write_corpus(tmp_path / "other.jsonl", 999), tmp_path / "other")
    assert other.fingerprint != made.fingerprint


def test_index_and_corpus_may_move_together(index: Path, tmp_path: Path) -> None:
    (tmp_path / "home").rename(tmp_path / "away")
    found = open_index(tmp_path / "away" / "index")
    assert len(found.search(["painter"], 3)[0]) == 3


def test_the_index_may_move_alone(index: Path, tmp_path: Path) -> None:
    index.rename(tmp_path / "index")
    assert len(open_index(tmp_path / "index").search(["painter"], 3)[0]) == 3


def test_a_corpus_that_moved_alone_can_be_named(index: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / "corpus.jsonl").rename(tmp_path / "moved.jsonl")
    with pytest.raises(IndexFileError, match=r"corpus of the index .* is missing: looked for"):
        open_index(index)
    assert open_index(index, corpus=tmp_path / "moved.jsonl").search(["painter"], 1)[0]
    assert manifest.verify(index, tmp_path / "moved.jsonl")


def test_another_corpus_is_refused(index: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "home" / "corpus.jsonl"
    write_corpus(corpus, 1000, seed=1)
    with pytest.raises(IndexFileError, match=r"belongs to another corpus than .*corpus.jsonl"):
        open_index(index)
    with pytest.raises(IndexFileError, match="belongs to another corpus"):
        open_index(index, corpus=corpus)
    with pytest.raises(IndexFileError, match="belongs to another corpus"):
        open_index(index, corpus=tmp_path / "nowhere.jsonl")


@pytest.mark.parametrize("name", ["offsets.npy", ROWS, "shard-000/bm25/terms.npy"])
def test_a_truncated_file_is_named(index: Path, name: str) -> None:
    content = (index / name).read_bytes()
    (index / name).write_bytes(content[:-1])
    with pytest.raises(IndexFileError, match=rf"{name} is truncated: it has \d+ of {len(content)}"):
        open_index(index)


def test_a_missing_file_is_named(index: Path) -> None:
    (index / ROWS).unlink()
    with pytest.raises(IndexFileError, match=rf"{ROWS} is missing"):
        open_index(index)


@pytest.mark.parametrize("place", [0, -1])
def test_damage_at_the_ends_is_found_when_opening(index: Path, place: int) -> None:
    flip(index / ROWS, place)
    with pytest.raises(IndexFileError, match=rf"{ROWS} is damaged"):
        open_index(index)


def test_damage_anywhere_is_found_by_verify(index: Path) -> None:
    path = index / ROWS
    assert path.stat().st_size > 16 * 4096, "otherwise the sample is the whole file"
    flip(path, 4096 + 50)
    manifest.load(index)
    with pytest.raises(IndexFileError, match=rf"{ROWS} is damaged"):
        manifest.verify(index)


def test_a_corpus_that_cannot_be_read_is_one_sentence(index: Path, tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(IndexFileError, match=rf"{place} cannot be read: (No such|Is a dir)"):
            manifest.verify(index, place)


def test_a_changed_corpus_is_found_by_verify(index: Path, tmp_path: Path) -> None:
    flip(tmp_path / "home" / "corpus.jsonl", 4096 + 50)
    with pytest.raises(IndexFileError, match="the corpus .* has changed since the index"):
        manifest.verify(index)


def test_a_folder_without_a_manifest_is_no_index(index: Path, tmp_path: Path) -> None:
    with pytest.raises(IndexFileError, match="there is no index .*nope"):
        manifest.load(tmp_path / "nope")
    (index / manifest.NAME).unlink()
    with pytest.raises(IndexFileError, match=r"holds no complete index: it has no manifest.json"):
        manifest.load(index)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": 99}, r"has the format 99, but this version reads 1"),
        ({"kind": None}, r"is not what was written \(the kind is None\)"),
        ({"kind": "sparse"}, r"no index of kind 'sparse'; choose bm25.*build the index again"),
        ({"corpus": {}}, r"is not what was written"),
        ({"shards": 1}, r"is not what was written"),
    ],
)
def test_a_manifest_of_another_form_is_refused(
    index: Path, change: dict[str, Any], problem: str
) -> None:
    path = index / manifest.NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(IndexFileError, match=problem):
        manifest.load(index)


@pytest.mark.parametrize("kind", ["dense", "hybrid"])
def test_a_manifest_that_says_too_little_for_its_kind_is_refused(index: Path, kind: str) -> None:
    path = index / manifest.NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), "kind": kind}))
    with pytest.raises(IndexFileError, match=f"does not say what an index of kind '{kind}' says"):
        open_index(index)


def test_a_manifest_that_is_no_json_is_refused(index: Path) -> None:
    (index / manifest.NAME).write_text("{")
    with pytest.raises(IndexFileError, match="cannot be read.*build the index again"):
        manifest.load(index)


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (("corpus", "bytes"), "many", "bytes is 'many'"),
        (("corpus", "path"), 7, "path is 7"),
        (("corpus", "relative"), "a\0b", "no name of a file"),
        (("corpus", "relative"), "\ud800", "no name of a file"),
        (("corpus", "passages"), 1e999, "passages is inf"),
        (("corpus", "passages"), 10**15, "its shards have 1000 of"),
        (("files", 0, "name"), "../x", "../x is no file of the index"),
        (("files", 0, "name"), "/etc/hosts", "/etc/hosts is no file of the index"),
        (("shards", 0, 0), 1, "do not follow each other"),
        (("shards", 0, 1), 1e999, "is not what was written"),
    ],
)
def test_a_manifest_made_by_hand_is_refused(
    index: Path, place: tuple[Any, ...], value: Any, problem: str
) -> None:
    content = json.loads((index / manifest.NAME).read_text())
    inner = content
    for one in place[:-1]:
        inner = inner[one]
    inner[place[-1]] = value
    (index / manifest.NAME).write_text(json.dumps(content))
    with pytest.raises(IndexFileError, match=problem):
        manifest.load(index)


def test_a_manifest_that_nests_too_deep_is_refused(index: Path) -> None:
    (index / manifest.NAME).write_text("[" * 3000)
    with pytest.raises(IndexFileError, match="cannot be read.*build the index again"):
        manifest.load(index)


def test_a_name_that_no_file_can_have_is_refused(index: Path) -> None:
    content = json.loads((index / manifest.NAME).read_text())
    content["files"][0]["name"] = "x" * 5000
    (index / manifest.NAME).write_text(json.dumps(content))
    with pytest.raises(IndexFileError, match="cannot be read: File name too long"):
        manifest.load(index)


def test_offsets_of_another_number_of_passages_are_refused(index: Path) -> None:
    content = json.loads((index / manifest.NAME).read_text())
    content["corpus"]["passages"] = content["shards"][0][1] = 10**15
    (index / manifest.NAME).write_text(json.dumps(content))
    with pytest.raises(IndexFileError, match="1000 passages, but its manifest says 10"):
        open_index(index)
