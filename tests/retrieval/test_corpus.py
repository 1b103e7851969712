from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.passages import passages, write_corpus
from prompt_coevo.retrieval.corpus import Corpus, Passage, write_offsets
from prompt_coevo.retrieval.errors import CorpusError, IndexFileError

GOOD = '{"id": "a", "contents": "one"}\n'


def opened(tmp_path: Path, text: str | bytes) -> Corpus:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    write_offsets(path, tmp_path / "offsets.npy")
    return Corpus.open(path, tmp_path / "offsets.npy")


def test_every_passage_is_read_back(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "corpus.jsonl", 50)
    facts = write_offsets(path, tmp_path / "offsets.npy")
    corpus = Corpus.open(path, tmp_path / "offsets.npy")
    written = [Passage(passage["id"], passage["contents"]) for passage in passages(50)]
    assert (facts.passages, facts.bytes) == (50, path.stat().st_size)
    assert len(corpus) == 50
    assert list(corpus.passages()) == written
    assert list(corpus.passages(range(7, 9))) == written[7:9]
    assert corpus.passage(49) == written[49]


@pytest.mark.parametrize("row", [-1, 1])
def test_a_row_outside_is_refused(tmp_path: Path, row: int) -> None:
    with pytest.raises(IndexError, match=f"has 1 passages, but no row {row}"):
        opened(tmp_path, GOOD).passage(row)


@pytest.mark.parametrize(
    ("text", "passage"),
    [
        (
            '{"id": 7, "title": "T", "contents": "x", "more": [1, {"a": null}]}\n',
            Passage("7", "x", {"title": "T", "more": [1, {"a": None}]}),
        ),
        ('{"id": "a", "contents": "no newline at the end"}', Passage("a", "no newline at the end")),
        ('{"id": "a", "contents": "windows"}\r\n', Passage("a", "windows")),
        ('\ufeff{"id": "ü", "contents": "Σ \\u00e9 \\ud83d\\ude00"}\n', Passage("ü", "Σ é 😀")),
        ('{"id": "a", "contents": ""}\n', Passage("a", "")),
    ],
)
def test_what_is_met_in_the_wild(tmp_path: Path, text: str, passage: Passage) -> None:
    assert opened(tmp_path, text).passage(0) == passage


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{broken", "is not JSON \\(Expecting property name"),
        ("", "is empty"),
        ("[1]", "holds a list instead of an object"),
        ('{"contents": "x"}', "has no 'id'"),
        ('{"id": "b", "title": "t", "text": "x"}', "has no 'contents'"),
        ('{"id": true, "contents": "x"}', "has true or false as 'id'"),
        ('{"id": 1.5, "contents": "x"}', "has a number as 'id'"),
        ('{"id": "b", "contents": null}', "has null as 'contents'"),
        (
            '{"id": "b", "contents": "\\ud800"}',
            "is not UTF-8 text, or has half of a surrogate pair",
        ),
        ("[" * 100_000, "cannot be read|is not JSON"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(CorpusError, match=f"corpus.jsonl, line 2 ({problem})"):
        opened(tmp_path, f"{GOOD}{line}\n{GOOD}")


def test_a_line_of_another_encoding_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"line 2 is not UTF-8 text"):
        opened(tmp_path, GOOD.encode() + '{"id": "b", "contents": "ü"}'.encode("latin-1"))


def test_an_id_that_comes_twice_is_named_with_both_lines(tmp_path: Path) -> None:
    lines = [{"id": own_id, "contents": "x"} for own_id in ("b", "a", 3, "c", "3", "a")]
    with pytest.raises(CorpusError, match=r"line 5 has the id '3', which line 3 has already"):
        opened(tmp_path, "".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"", "is empty"), (gzip.compress(GOOD.encode(), mtime=0), "is compressed.*gunzip")],
)
def test_a_file_that_is_no_corpus(tmp_path: Path, content: bytes, problem: str) -> None:
    with pytest.raises(CorpusError, match=problem):
        opened(tmp_path, content)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"nope.jsonl cannot be read: No such file"):
        write_offsets(tmp_path / "nope.jsonl", tmp_path / "offsets.npy")
    with pytest.raises(CorpusError, match=r"cannot be read: Is a directory"):
        write_offsets(tmp_path, tmp_path / "offsets.npy")


def test_offsets_of_another_corpus_are_refused(tmp_path: Path) -> None:
    opened(tmp_path, GOOD)
    other = write_corpus(tmp_path / "other.jsonl", 1)
    with pytest.raises(IndexFileError, match=r"for a corpus of \d+ bytes, but .*other.jsonl has"):
        Corpus.open(other, tmp_path / "offsets.npy")


def test_damaged_offsets_are_refused(tmp_path: Path) -> None:
    corpus = opened(tmp_path, GOOD)
    (tmp_path / "offsets.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(IndexFileError, match=r"offsets.npy cannot be read.*build the index again"):
        Corpus.open(corpus.path, tmp_path / "offsets.npy")


def test_progress_ends_with_the_whole_file(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "corpus.jsonl", 3)
    told: list[tuple[int, int]] = []
    write_offsets(path, tmp_path / "offsets.npy", lambda *progress: told.append(progress))
    assert told[-1] == (path.stat().st_size, path.stat().st_size)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04",
        b"\x93NUMPY\x01\x00\x10\x00{'descr': (\n     ",
    ],
)
def test_what_is_no_array_is_refused(tmp_path: Path, content: bytes) -> None:
    corpus = opened(tmp_path, GOOD)
    (tmp_path / "offsets.npy").write_bytes(content)
    with pytest.raises(IndexFileError, match=r"offsets.npy cannot be read.*build the index again"):
        Corpus.open(corpus.path, tmp_path / "offsets.npy")


@pytest.mark.parametrize("array", [np.zeros((2, 2)), np.array(7), np.array(["a"]), np.zeros(0)])
def test_another_array_is_refused(tmp_path: Path, array: Any) -> None:
    corpus = opened(tmp_path, GOOD)
    np.save(tmp_path / "offsets.npy", array)
    with pytest.raises(IndexFileError, match="build the index again"):
        Corpus.open(corpus.path, tmp_path / "offsets.npy")


@pytest.mark.parametrize(
    "damage", [b"\0" * 20, b"[" * 20, b'{"id": "a", "other":1', b'"' + b"x" * 18 + b'"']
)
def test_a_damaged_row_is_told_when_it_is_read(tmp_path: Path, damage: bytes) -> None:
    corpus = opened(tmp_path, GOOD + GOOD.replace('"a"', '"b"'))
    with corpus.path.open("r+b") as file:
        file.seek(len(GOOD))
        file.write(damage)
    with pytest.raises(CorpusError, match="is damaged: row 1 is not what it was; .*verify"):
        corpus.passage(1)
    assert corpus.passage(0) == Passage("a", "one")
