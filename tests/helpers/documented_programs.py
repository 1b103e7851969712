"""Parse a documented command with its program's own parser, without running it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import typer
from packaging.requirements import Requirement

from helpers.documented import ROOT
from helpers.documented_commands import Command
from prompt_coevo.cli import app

# bash reads these blocks; no session has the programs' parsers.
OUTSIDE: Final = frozenset(
    {
        *(
            ".",
            "cat",
            "cd",
            "cp",
            "curl",
            "done",
            "export",
            "git",
            "grep",
            "gunzip",
            "head",
            "less",
        ),
        *(
            "ls",
            "mkdir",
            "open",
            "rm",
            "source",
            "tail",
            "tar",
            "hf",
            "ray",
            "twine",
            "vllm",
            "xdg-open",
        ),
    }
)
# Options of these that have a value, which is no requirement.
_PIP_VALUES: Final = {
    *(
        "-c",
        "-d",
        "-r",
        "-w",
        "--extra-index-url",
        "--find-links",
        "--platform",
        "--python-version",
    ),
}


def check(command: Command) -> None:
    """Raise AssertionError, or the parser's own error, for a command that would not be understood."""
    words = list(command.words)
    program = words[0].rpartition("/")[2]
    if program in ("python", "python3"):
        return _check_python(words[1:])
    if program in OUTSIDE:
        return None
    assert program in PROGRAMS, f"no test knows the program {program!r}"
    return PROGRAMS[program](words[1:])


def parse_prompt_coevo(arguments: Sequence[str]) -> None:
    """Parse the arguments as `prompt-coevo` does. Files that they name need not exist."""
    _parse(typer.main.get_command(app), "prompt-coevo", list(arguments))


def _parse(command: Any, name: str, arguments: list[str]) -> None:
    try:
        context = command.make_context(name, arguments)
    except typer.Exit:  # --help, --version
        return
    except typer.BadParameter as error:
        if "does not exist" not in str(error):
            raise
        return
    if hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        if rest:
            below, inner, others = command.resolve_command(context, rest)
            _parse(inner, below, others)


def _check_python(words: list[str]) -> None:
    if words[0] == "-m":
        module, rest = words[1], words[2:]
        if module == "pip":
            return _check_pip(rest)
        if module == "pytest":
            return _check_pytest(rest)
        # The trainers' sessions have their parsers.
        others = ("verl.trainer.main_ppo", "verl.model_merger", "openrlhf.cli.train_ppo_ray")
        if module in ("venv", "http.server", *others):
            return None
        if module.startswith("prompt_coevo."):
            return _check_script(_source_of(module), rest)
        raise AssertionError(f"no test knows the module {module!r}")
    if words[0] == "dev.py":
        return _check_dev(words[1:])
    return _check_script(ROOT / words[0], words[1:])


def _source_of(module: str) -> Path:
    below = module.removeprefix("prompt_coevo.").split(".")
    base = ROOT if below[0] in ("adapters", "retrieval") else ROOT / "prompt_coevo"
    path = base.joinpath(*below)
    return path if path.is_dir() else path.with_suffix(".py")


def _check_script(path: Path, arguments: Sequence[str]) -> None:
    """Check that our script exists and knows the options, which its sources or its sibling modules name."""
    assert path.exists(), f"{path.relative_to(ROOT)} is not there"
    if path.is_dir():
        assert (path / "__main__.py").exists(), f"{path.relative_to(ROOT)} is no program"
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path, *_beside(path)]
    known = {option for file in files for option in _options_in(file)}
    given = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    if path.is_relative_to(ROOT / "adapters"):
        return  # its own session reads them
    assert given <= known, f"{path.relative_to(ROOT)} has no {', '.join(sorted(given - known))}"


def _beside(path: Path) -> list[Path]:
    names = re.findall(r"^(?:import|from) (\w+)", path.read_text("utf-8"), re.MULTILINE)
    return [file for file in (path.with_name(f"{name}.py") for name in names) if file.exists()]


@cache
def _options_in(file: Path) -> frozenset[str]:
    nodes = ast.walk(ast.parse(file.read_text("utf-8")))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    return frozenset(text for text in texts if isinstance(text, str) and text.startswith("--"))


def _check_dev(arguments: Sequence[str]) -> None:
    command, *rest = arguments
    assert command in ("demo", "nox") or (
        command == "test" and rest in ([], ["--quick"], ["--all"])
    )
    if command == "demo":
        parse_prompt_coevo(["demo", *rest])
    if "-s" in rest:
        assert rest[rest.index("-s") + 1] in _sessions(), f"nox has no session {rest}"


@cache
def _sessions() -> set[str]:
    tree = ast.parse((ROOT / "noxfile.py").read_text("utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {
        one.name
        for one in functions
        if any("session" in ast.unparse(d) for d in one.decorator_list)
    }


def _check_pip(arguments: Sequence[str]) -> None:
    command, *rest = arguments
    assert command in ("install", "download", "wheel", "list", "uninstall"), f"pip {command}?"
    for option, value in _pip_words(rest):
        if option == "-r":
            assert (ROOT / value).is_file(), f"there is no {value}"
        elif not option:
            _check_wanted(value)


def _pip_words(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    waiting = ""
    for word in words:
        if waiting:
            yield waiting, word
            waiting = ""
        elif word in _PIP_VALUES:
            waiting = word
        elif not word.startswith("-"):
            yield "", word


def _check_wanted(wanted: str) -> None:
    """Check an install requirement: a project folder, or our package with extras that exist."""
    folder, extras = re.fullmatch(r"([^\[]*)(?:\[(.*)\])?", wanted).groups()  # type: ignore[union-attr]
    if folder == "." or "/" in folder:
        assert (ROOT / folder / "pyproject.toml").is_file(), f"{folder} is no project"
        known = set(extras.split(",")) if extras else set()
        assert known <= set(_extras()), f"there is no extra {known - set(_extras())}"
        return
    if folder.endswith(".whl"):
        return
    requirement = Requirement(wanted)
    if requirement.name == "prompt-coevo":
        assert requirement.extras <= set(_extras()), f"{wanted}: there is no such extra"


@cache
def _extras() -> frozenset[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return frozenset(project["optional-dependencies"])


def _check_pytest(arguments: Sequence[str]) -> None:
    for word in arguments:
        if word.startswith("tests"):
            assert (ROOT / word.partition("::")[0]).exists(), f"there is no {word}"


def _check_bash(arguments: Sequence[str]) -> None:
    assert (ROOT / arguments[0]).is_file(), f"there is no {arguments[0]}"


def _check_runner(arguments: Sequence[str]) -> None:
    """Check a `uvx --from REQUIREMENT prompt-coevo ...` or `pipx run --spec REQUIREMENT ...`."""
    for option, value in pairwise(arguments):
        if option in ("--from", "--with", "--spec"):
            _check_wanted(value)
    if "prompt-coevo" in arguments:
        parse_prompt_coevo(arguments[arguments.index("prompt-coevo") + 1 :])


def _check_uv(arguments: Sequence[str]) -> None:
    if arguments[0] == "pip":
        _check_pip(arguments[1:])
    elif arguments[0] != "venv":
        _check_runner(arguments)


def _check_accelerate(arguments: Sequence[str]) -> None:
    for word in arguments:
        if word.startswith("docs/"):
            assert (ROOT / word).is_file(), f"there is no {word}"


PROGRAMS: Final[Mapping[str, Callable[[Sequence[str]], None]]] = {
    "prompt-coevo": parse_prompt_coevo,
    "pip": _check_pip,
    "uv": _check_uv,
    "uvx": _check_runner,
    "pipx": _check_runner,
    "pytest": _check_pytest,
    "bash": _check_bash,
    "accelerate": _check_accelerate,
}
