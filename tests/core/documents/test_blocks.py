"""Check every code block in README and docs that the core's environment can run."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from helpers import documented
from helpers.documented import (
    DATA,
    PREPARED,
    ROOT,
    SHELL,
    TEST_FILES,
    Block,
    blocks,
    blocks_for,
    blocks_in,
    documented_commands,
)
from helpers.documented_commands import Command, commands
from helpers.documented_programs import check
from laws.core.run_laws import broken, laws_of
from laws.core.small_method import Small
from prompt_coevo import Method, Section, Settings
from prompt_coevo.registry import Kind

ENTRY_POINTS = {"prompt_coevo", *(f"prompt_coevo.{kind}" for kind in get_args(Kind))}
HERE = blocks_for("core")
COMMANDS = documented_commands("core")


def of(*languages: str, prepared: tuple[str, ...] = ("",)) -> Any:
    """Select blocks of these languages, except those that are part of a tested file."""
    found = [
        block
        for block in HERE
        if block.language in languages and block.prepared in prepared and not block.cut_out_of()
    ]
    return pytest.mark.parametrize("block", found, ids=str)


@pytest.mark.parametrize("block", blocks(), ids=str)
def test_somebody_checks_the_block(block: Block) -> None:
    assert block.sessions(), (
        f"{block}: nobody checks this block. Its language is {block.language or 'not said'!r}, its "
        f"preparation {block.prepared or 'none'!r}; CONTRIBUTING.md says what there is"
    )
    for session in block.sessions():
        assert f'blocks_for("{session}"' in (ROOT / TEST_FILES[session]).read_text("utf-8")


def test_every_preparation_has_a_session_that_makes_it() -> None:
    assert set(PREPARED.values()) <= set(TEST_FILES)
    for name, session in PREPARED.items():
        assert f'"{name}"' in (ROOT / TEST_FILES[session]).read_text("utf-8"), name


@of(*SHELL)
def test_bash_can_read_it(block: Block) -> None:
    typed = block.text
    if block.language == "console":
        typed = "\n".join(" ".join(command.words) for command in commands(typed, "console"))
        return
    subprocess.run(["bash", "-n"], input=typed, text=True, check=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_understood(command: Command) -> None:
    check(command)


@of("python")
def test_python_runs_as_it_stands(block: Block, tmp_path: Path, monkeypatch: Any) -> None:
    run(block, tmp_path, monkeypatch)


@of("python", prepared=("settings",))
def test_python_about_settings_runs(block: Block, tmp_path: Path, monkeypatch: Any) -> None:
    run(block, tmp_path, monkeypatch, Settings=Settings)


@of("python", prepared=("method",))
def test_python_about_a_method_runs_and_obeys_the_laws(
    block: Block, tmp_path: Path, monkeypatch: Any, offer: Any
) -> None:
    class Strength(Section):
        strength: float = 1.0

    provides = frozenset({"instruction"})
    offer("methods", "mine", Method("mine", plugin=Small, section=Strength, provides=provides))
    names = run(block, tmp_path, monkeypatch)
    (laws,) = [one for name, one in names.items() if name.startswith("Test")]
    assert {law: said for law in laws_of(laws) if (said := broken(laws, law))} == {}


def run(
    block: Block, folder: Path, monkeypatch: pytest.MonkeyPatch, **names: Any
) -> dict[str, Any]:
    """Run a block in an empty folder with these names; return what it defines."""
    monkeypatch.chdir(folder)
    exec(compile(block.text, str(block), "exec"), names)
    return names


def parsed(block: Block) -> Any:
    if block.language == "toml":
        return tomllib.loads(block.text)
    return json.loads(block.text) if block.language == "json" else yaml.safe_load(block.text)


@of(*DATA)
def test_settings_are_settings(block: Block, tmp_path: Path) -> None:
    values = parsed(block)
    if entry_points := values.get("project", {}).get("entry-points"):
        assert set(entry_points) <= ENTRY_POINTS
        return
    path = tmp_path / f"settings.{block.language}"
    path.write_text(block.text, "utf-8")
    assert Settings(config_file=path).config_file == path


def test_other_data_can_be_read() -> None:
    assert all(parsed(block) for block in HERE if block.prepared == "data")


@pytest.mark.parametrize(
    ("text", "sessions"),
    [
        ("```\nno language\n```", set()),
        ("```rust\nfn main() {}\n```", set()),
        ("<!-- prepared: nonsense -->\n```python\n1\n```", set()),
        ("<!-- prepared: trl -->\n\n```python\ntrainer.train()\n```", {"trl"}),
        ("```bash\npython -m verl.trainer.main_ppo +coevo=stream\n```", {"core", "verl"}),
        ("```console\n$ prompt-coevo demo\nan output\n```", {"core"}),
        ("    ```python\n    1\n    ```", {"core"}),
    ],
)
def test_who_checks_what(text: str, sessions: set[str]) -> None:
    (block,) = blocks_in(f"A page.\n\n{text}\n", "page.md")
    assert block.sessions() == sessions


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("prompt-coevo demo --fast", "No such option"),
        ("prompt-coevo presents list", "No such command"),
        ("pip install 'prompt-coevo[gpu]'", "no such extra"),
        ("pip install '.[gpu]'", "no extra"),
        ("python dev.py nox -s vrel", "no session"),
        ("python benchmarks/pareto.py --fast", "has no --fast"),
        ("python benchmarks/nothing.py", "is not there"),
        ("pytest tests/nothing", "there is no tests/nothing"),
        ("uvx --from 'prompt-coevo[demo]' prompt-coevo demo --fast", "No such option"),
        ("make all", "no test knows the program 'make'"),
    ],
)
def test_a_wrong_command_is_found(line: str, message: str) -> None:
    (command,) = commands(f"KEY=... {line}   # a comment\n")
    with pytest.raises(Exception, match=message):
        check(command)


def test_of_equal_blocks_one_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    (prepared,) = blocks_in("<!-- prepared: trl -->\n```python\ntrainer.train()\n```\n", "a.md")
    (bare,) = blocks_in("```python\ntrainer.train()\n```\n", "b.md")
    monkeypatch.setattr(documented, "pages", lambda: ["a.md", "b.md"])
    monkeypatch.setattr(documented, "blocks_of", {"a.md": [prepared], "b.md": [bare]}.__getitem__)
    assert [block.prepared for block in documented.blocks.__wrapped__()] == ["trl", "trl"]


def test_commands_are_told_apart() -> None:
    text = (
        "export A=1\nfor x in 1 2; do B=2 python a.py --n $x > 'out file'; done\na \\\n  b | c && d"
    )
    assert [" ".join(one.words) for one in commands(text)] == [
        "export A=1", "python a.py --n $x", "done", "a b", "c", "d",
    ]  # fmt: skip
