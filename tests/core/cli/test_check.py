"""Check `prompt-coevo check`, and the page in the documentation that shows it."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from prompt_coevo.cli import main
from standins.openai_server import openai_server

PAGE = Path(__file__).parents[3] / "docs" / "report.md"
ROWS = [
    {
        "prompt": [
            *([{"role": "system", "content": "Be brief."}] if number % 4 else []),
            {"role": "user", "content": f"What is {number} + {number}?"},
        ],
        "answer": str(2 * number),
    }
    for number in range(400)
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def run(*arguments: Any) -> tuple[int, str, str]:
    """Run the command line in this process; return status, output and errors."""
    output, errors = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["prompt-coevo", "check", *map(str, arguments)]),
        patch.dict(os.environ, COLUMNS="200"),
        redirect_stdout(output),
        redirect_stderr(errors),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    told = " ".join(errors.getvalue().replace("│", " ").split())
    return int(ended.value.code or 0), output.getvalue(), told


def asked(base: str) -> tuple[str, ...]:
    values = (
        "reflection.model=openai/gpt-4o-mini",
        f"reflection.api_base={base}",
        "reflection.timeout_s=1000",  # litellm's first call imports for as long as a machine likes
    )
    return tuple(part for value in values for part in ("--set", value))


def test_the_page_that_the_documentation_shows(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMPT_COEVO_REFLECTION__API_KEY", "sk-a-key-of-the-test")
    with openai_server("ready") as server:
        length = ("--epochs", 3, "--rollouts", 8)
        status, page, _ = run("--preset", "p2o", *asked(server.base), "--data", data, *length)
        assert len(server.requests) == 1
    assert status == 0
    page = re.sub(r"in \d+\.\d s", "in 0.8 s", page)
    assert f"```text\n{page}```" in PAGE.read_text("utf-8"), page


def test_problems_have_exit_status_1_and_are_there_for_programs(data: Path) -> None:
    off = ("--set", "preflight.reflection=off", "--set", "reflection.model=openai/x")
    never = ("--set", "stream.first_sight=false")
    status, page, _ = run(*off, *never, "--data", data, "--epochs", 1, "--json")
    assert status == 1
    found = json.loads(page)
    assert not found["ok"]
    (problem,) = [line for line in found["lines"] if line["status"] == "problem"]
    assert "meets no question twice; set stream.first_sight = true" in problem["text"]


def test_settings_that_are_refused_are_a_problem_on_the_page() -> None:
    status, page, _ = run("--set", "p2o.taus=0.1")
    assert status == 1
    assert "unknown setting p2o.taus; did you mean p2o.tau?" in page


def test_a_dataset_that_cannot_be_used_is_a_problem_on_the_page(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"question": "why?", "answer": "so"}\n')
    status, page, _ = run("--set", "reflection.model=openai/x", "--data", path)
    assert status == 1
    assert "problem  questions  the training dataset has no column 'prompt'" in page
    path.write_text("")
    status, page, _ = run("--set", "reflection.model=openai/x", "--data", path)
    assert "the training dataset is empty" in page


def test_one_question_is_singular(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"prompt": "why?", "answer": "so"}\n')
    _, page, _ = run("--set", "reflection.function=builtins:len", "--data", path)
    assert "  1 question in 1 shape\n" in page
    assert "an epoch is 1 question × 8 = 8 training rollouts" in page


def test_an_output_that_lacks_a_character_gets_a_question_mark(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    turns = [{"role": role, "content": "x"} for role in ("user", "assistant") * 2]
    path.write_text(json.dumps({"prompt": [*turns, turns[0]], "answer": "x"}) + "\n")
    given = ["--set", "reflection.function=builtins:len", "--data", str(path)]
    told = subprocess.run(
        [sys.executable, "-P", "-c", "from prompt_coevo.cli import main; main()", "check", *given],
        capture_output=True,
        encoding="latin-1",
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert "? 3 messages ?" in told.stdout, told.stderr


def test_without_questions_settings_and_model_are_looked_at() -> None:
    status, page, _ = run("--set", "reflection.function=builtins:len")
    assert status == 0
    assert [line.split()[1] for line in page.splitlines()[:2]] == ["settings", "reflection"]


def test_a_function_in_the_current_directory_is_found(tmp_path: Path) -> None:
    """As installed, the command is a script in another directory. No package is hidden by a file there."""
    for package in ("yaml", "pydantic_settings", "litellm"):
        (tmp_path / f"{package}.py").write_text("raise SystemExit('hidden')\n")
    (tmp_path / "teacher.py").write_text("def write(prompt: str) -> str:\n    return prompt\n")
    script = tmp_path / "bin" / "prompt-coevo"
    script.parent.mkdir()
    script.write_text("from prompt_coevo.cli import main\nmain()\n")
    told = subprocess.run(
        [sys.executable, script, "check", "--set", "reflection.function=teacher:write"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={name: one for name, one in os.environ.items() if name != "PYTHONSAFEPATH"},
    )
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "p2o.tau"), "write --set NAME=VALUE"),
        (("--set", "=1"), "write --set NAME=VALUE"),
        (("--set", "p2o=1", "--set", "p2o.tau=1"), "p2o has a value already"),
        (("--set", "p2o.tau=0.1", "--set", "p2o={}"), "p2o is a section"),
        (("--set", "reflection={api_key: sk-x}"), "shell's history"),
        (("--set", "reflection.api_key=sk-secret"), "would stay in the shell's history"),
        (("--epochs", "3"), "have no effect without --data"),
        (("--data", "there-is-none.jsonl"), "cannot be read: No such file"),
        (("--no-such-option",), "No such option"),
    ],
)
def test_a_wrong_command_has_exit_status_2(arguments: tuple[str, ...], message: str) -> None:
    status, _, error = run(*arguments)
    assert status == 2
    assert message in error
    assert "sk-secret" not in error


TYPED = f"sk-proj-{'Ab3dE5gH7jK9mN1pQ3sT5v'}"  # no file has what looks like a key


@pytest.mark.parametrize(
    "arguments",
    [
        ("--set", f"reflection={TYPED}"),
        ("--set", "reflection=0f9e8d7c6b5a49382716f5e4d3c2b1a0"),
        ("--set", f"reflection.model={TYPED}"),
        ("--set", f"reflection.timeout_s={TYPED}"),
        ("--set", f"reflection.function={TYPED}"),
        ("--set", f"reflection.{TYPED}=1"),
        ("--set", f"algorithms={TYPED}"),
        ("--set", f"preset={TYPED}"),
        ("--set", TYPED),
        ("--set", f"reflection=1\x1b[2J{TYPED}", "--set", "reflection.model=a"),
        ("--set", f"reflection.model={TYPED}", "--json"),
        ("--set", "reflection.model=openai/x", "--data", TYPED),
        ("--preset", TYPED),
    ],
)
def test_a_key_in_a_wrong_place_is_never_printed(arguments: tuple[str, ...]) -> None:
    status, page, error = run(*arguments)
    assert status
    assert TYPED not in page + error
    assert "0f9e8d7c" not in page + error
    assert "\x1b" not in page + error


def test_a_key_in_place_of_a_model_is_refused_before_it_is_sent() -> None:
    with openai_server("ready") as server:
        base = ("--set", f"reflection.api_base={server.base}")
        status, page, _ = run(*base, "--set", f"reflection.model={TYPED}")
        assert not server.requests
    assert status == 1
    assert "reflection.model looks like a key, which is not shown here" in " ".join(page.split())


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"prompt": "why?"}\nwhy?\n')
    status, _, error = run("--data", path)
    assert status == 2
    assert "line 2: no JSON object" in error


def test_a_line_separator_inside_a_text_ends_no_line(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"prompt": "why\u2028not?"}\n', "utf-8")
    _, page, error = run("--data", path)
    assert "no JSON object" not in error
    assert "questions" in page


def test_a_tokenizer_needs_its_package(data: Path) -> None:
    status, _, error = run("--data", data, "--tokenizer", "a-name")
    assert status != 0
    assert "pip install 'prompt-coevo[trl]'" in error or not error


def quickstart_command(folder: Path) -> list[str]:
    """Return the quick start's command for its own file, without a call to the model."""
    page = (PAGE.parent / "quickstart.md").read_text("utf-8")
    (line,) = re.findall(r"^prompt-coevo check (.*)$", page, re.MULTILINE)
    (row,) = set(re.findall(r'a line `(\{"question".*?\})`', page))
    path = folder / "questions.jsonl"
    path.write_text("".join(row.replace("...", f"{n}") + "\n" for n in range(3)))
    return [
        *line.replace("questions.jsonl", str(path)).split(),
        *("--set", "preflight.reflection=off"),
    ]


def test_the_quick_starts_own_file(tmp_path: Path) -> None:
    command = quickstart_command(tmp_path)
    status, page, _ = run(*command)
    assert status == 0, page
    assert "3 questions in 1 shape" in page
    command.remove("--prompt-column")
    command.remove("question")
    status, page, _ = run(*command)
    assert status == 1
    assert "no column 'prompt' (--prompt-column); it has: question, answer" in " ".join(
        page.split()
    )


@pytest.mark.parametrize(
    ("hint", "said"),
    [("", "is empty in all 3 rows"), ("4.", "holds the right answers themselves"), (7, "an int")],
)
def test_a_column_of_hints_that_a_run_would_refuse(tmp_path: Path, hint: Any, said: str) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"prompt": f"{n}?", "answer": "4", "solution": hint} for n in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    status, page, _ = run("--data", path, "--set", "algorithms=hints")
    assert status == 1
    assert said.replace("an int", "holds a int") in " ".join(page.split())
    path.write_text(
        path.read_text().replace(f'"solution": {json.dumps(hint)}', '"solution": "2+2"')
    )
    assert run("--data", path, "--set", "algorithms=hints")[0] == 0
    status, page, _ = run("--data", path, "--set", "algorithms=hints", "--epochs", "1")
    assert status == 1
    assert "no hint will ever be shown" in " ".join(page.split())
