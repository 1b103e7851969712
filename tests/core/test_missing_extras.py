"""Check that a missing package gives one sentence with the exact install command, everywhere.

This environment has neither torch nor a framework, so each case is real.

Here is neither torch nor a framework, so each of these is the real thing.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from prompt_coevo import Coevolution, Settings
from prompt_coevo.cli import app
from prompt_coevo.extras import MissingExtraError, is_installed

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ABSENT = ("faiss", "httptools", "openrlhf", "torch", "trl", "verl")

pytestmark = pytest.mark.skipif(
    any(is_installed(name) for name in ABSENT), reason="a framework is installed here"
)


def sentence(purpose: str, package: str, extra: str) -> str:
    return (
        f"{purpose} needs the package {package!r}, which is not installed; "
        f"run: pip install 'prompt-coevo[{extra}]'"
    )


@pytest.mark.parametrize(
    ("statement", "purpose", "package"),
    [
        ("from prompt_coevo.adapters.trl import CoevoCallback", "the adapter for TRL", "trl"),
        ("from prompt_coevo.adapters.trl import *", "the adapter for TRL", "trl"),
        ("import prompt_coevo.adapters.verl.launch", "the adapter for VeRL", "verl"),
    ],
)
def test_an_adapter_without_its_framework(statement: str, purpose: str, package: str) -> None:
    with pytest.raises(MissingExtraError) as raised:
        exec(statement, {})
    assert str(raised.value) == sentence(purpose, package, package)


@pytest.mark.parametrize("flags", [[], ["--coevo.method", "p2o"]])
def test_openrlhfs_command_without_openrlhf(flags: list[str]) -> None:
    command = [sys.executable, "-P", "-m", "prompt_coevo.adapters.openrlhf", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == f"error: {sentence('this command', 'openrlhf', 'openrlhf')}\n"
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["demo"], sentence("the demo", "trl", "demo")),
        (["smollm2", "NEW"], sentence("making SmolLM2-135M-Instruct", "gguf", "demo")),
        (
            ["retrieval", "build", "CORPUS", "--out", "NEW", "--kind", "dense"],
            sentence("a dense index", "faiss", "retrieval"),
        ),
        (
            ["retrieval", "build", "CORPUS", "--out", "NEW"],
            sentence("stemming", "Stemmer", "retrieval"),
        ),
        (["retrieval", "serve", "INDEX"], sentence("searching by words", "numba", "retrieval")),
        (
            ["retrieval", "serve", "INDEX", "--ray"],
            sentence("placing servers on a cluster", "ray", "retrieval-ray"),
        ),
    ],
)
def test_a_command_without_its_extra(arguments: list[str], expected: str, tmp_path: Path) -> None:
    corpus, index = tmp_path / "corpus.jsonl", tmp_path / "index"
    corpus.write_text('{"id": "1", "contents": "a title\\nand a text"}\n')
    runner = CliRunner()
    built = ["retrieval", "build", str(corpus), "--out", str(index), "--analyzer", "unicode"]
    assert runner.invoke(app, built).exit_code == 0
    places = {"CORPUS": corpus, "INDEX": index, "NEW": tmp_path / "new"}
    done = runner.invoke(app, [str(places.get(one, one)) for one in arguments])
    assert isinstance(done.exception, MissingExtraError)
    assert str(done.exception) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"reflection": {"model": "self"}},
            sentence('reflection.model = "self"', "torch", "trl"),
        ),
    ],
)
def test_a_setting_without_its_extra(settings: dict[str, object], expected: str) -> None:
    with pytest.raises(MissingExtraError) as raised:
        Coevolution.check(Settings(**settings))
    assert str(raised.value) == expected


def test_a_folder_of_a_packages_name_is_not_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faiss").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_installed("faiss")


def test_every_extra_that_a_sentence_names_exists() -> None:
    extras = PROJECT["optional-dependencies"]
    assert {"trl", "verl", "openrlhf", "demo", "llm", "retrieval", "encoder"} <= set(extras)


@pytest.mark.parametrize("extra", ["trl", "verl", "openrlhf"])
def test_what_asks_a_language_model_brings_litellm(extra: str) -> None:
    assert "prompt-coevo[llm]" in PROJECT["optional-dependencies"][extra]


def test_what_the_report_brings_is_imported_by_it() -> None:
    """An extra whose packages are never imported promises something that does not exist."""
    brought = {re.split(r"[<>=]", one)[0] for one in PROJECT["optional-dependencies"]["report"]}
    folder = ROOT / "prompt_coevo" / "report"
    code = "\n".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    imported = set(re.findall(r"^ *(?:import|from) (\w+)", code, re.MULTILINE))
    assert brought == {"jinja2", "matplotlib"}
    assert brought <= imported
