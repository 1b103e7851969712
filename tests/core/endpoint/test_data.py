"""Questions from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from prompt_coevo.endpoint.data import LINE, Columns, chat, distinct, indexed, read_rows, split
from prompt_coevo.errors import DatasetError


def written(folder: Path, text: str, name: str = "data.jsonl") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_json_lines_and_csv_say_the_same(tmp_path: Path) -> None:
    lines = written(tmp_path, '{"prompt": "a, b?", "answer": 3}\n\n{"prompt": "c", "answer": 4}\n')
    table = written(tmp_path, '\ufeffprompt,answer\n"a, b?",3\nc,4\n', "data.csv")
    first, second = read_rows(lines, Columns()), read_rows(table, Columns())
    assert [row["prompt"] for row in first] == [row["prompt"] for row in second]
    assert [row[LINE] for row in first] == [1, 3]
    index = indexed(first, Columns())
    assert index.question(index.ids()[0]).ground_truth == "3"


def test_other_line_separators_are_part_of_a_text(tmp_path: Path) -> None:
    """U+2028 ends a line for str.splitlines, and neither in JSON nor in CSV."""
    lines = written(tmp_path, '{"prompt": "a\u2028b\x85c", "answer": "3"}\n')
    table = written(tmp_path, 'prompt,answer\na\u2028b\x85c,3\n\n"d\ne",4\n', "data.csv")
    first, second = read_rows(lines, Columns()), read_rows(table, Columns())
    assert first[0]["prompt"] == second[0]["prompt"] == "a\u2028b\x85c"
    assert (second[1]["prompt"], second[1][LINE]) == ("d\ne", 5)


def test_a_system_message_stands_before_prompts_without_one() -> None:
    columns = Columns(system="be kind")
    assert chat({"prompt": "x"}, columns)[0] == {"role": "system", "content": "be kind"}
    own = [{"role": "system", "content": "own"}, {"role": "user", "content": "x"}]
    assert chat({"prompt": own}, columns) == own


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "data.jsonl", "has no rows"),
        ("prompt,answer\n", "data.csv", "has no rows"),
        ("{", "data.jsonl", "line 1 of .* is not JSON"),
        ("[1]", "data.jsonl", "line 1 of .* is no JSON object"),
        ('{"prompt": "", "answer": "x"}', "data.jsonl", "line 1 of .* has an empty prompt"),
        ('{"prompt": 3, "answer": "x"}', "data.jsonl", "neither a text nor a chat of texts"),
        (
            '{"question": "a", "answer": "x"}',
            "data.jsonl",
            "line 1 of .* has no column 'prompt'; it has: question, answer; .* --prompt-column",
        ),
        (
            "prompt,gold\na,b\n",
            "data.csv",
            "no column 'answer'; it has: prompt, gold; .*--answer-column",
        ),
        ("prompt,answer\nWhat is 1, 2,3\n", "data.csv", "line 2 of .* has 3 fields and .* has 2"),
        ("prompt,answer\na,b\nalone\n", "data.csv", "line 3 of .* has 1 fields and .* has 2"),
        (
            'prompt,answer\na,"b\nc,d\n',
            "data.csv",
            "line 3 of .* is no CSV: unexpected end of data",
        ),
        ("x", "data.txt", "must end in .jsonl or .csv"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, name: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        read_rows(written(tmp_path, text, name), Columns())


def test_no_file_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="cannot be read: No such file"):
        read_rows(tmp_path / "none.jsonl", Columns())
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DatasetError, match="is not UTF-8"):
        read_rows(tmp_path / "bytes.jsonl", Columns())


def test_a_question_that_stands_twice_is_one(tmp_path: Path) -> None:
    chats = '{"prompt": [{"role": "user", "content": "q1"}], "answer": "1"}\n'
    lines = "".join(f'{{"prompt": "q{n % 4}", "answer": {n % 4}}}\n' for n in range(8))
    rows = read_rows(written(tmp_path, lines + chats), Columns())
    kept = distinct(rows, Columns())
    assert [row[LINE] for row in kept] == [1, 2, 3, 4]
    assert distinct(kept, Columns()) == kept


def test_two_answers_to_one_prompt_are_refused(tmp_path: Path) -> None:
    lines = (
        '{"prompt": "q", "answer": 1}\n{"prompt": "p", "answer": 1}\n{"prompt": "q", "answer": 2}\n'
    )
    rows = read_rows(written(tmp_path, lines), Columns())
    with pytest.raises(DatasetError, match="lines 1 and 3 of the data have the same prompt"):
        distinct(rows, Columns())


def test_the_split_is_the_seeds_and_leaves_something(tmp_path: Path) -> None:
    rows = [{"prompt": str(n), "answer": "x", LINE: n} for n in range(10)]
    train, held = split(rows, 0.25, 0)
    assert (len(train), len(held)) == (8, 2)
    assert split(rows, 0.25, 0) == (train, held)
    assert any(split(rows, 0.25, seed) != (train, held) for seed in range(1, 5))
    assert split(rows, 0.0, 0) == (rows, [])
    assert len(split(rows, 0.01, 0)[1]) == 1
    with pytest.raises(DatasetError, match="fewer than two to search on"):
        split(rows[:2], 0.5, 0)
