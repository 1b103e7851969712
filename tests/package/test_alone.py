"""Check the built wheel alone in a fresh environment, as after `pip install prompt-coevo`.

Run by `python dev.py nox -s package`, which fills dist/ first.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "transformers", "trl", "verl", "openrlhf", "litellm", "matplotlib", "ray"}


@pytest.fixture(scope="session")
def wheel() -> Path:
    found = list((ROOT / "dist").glob("*.whl"))
    if len(found) != 1:
        pytest.fail("dist/ has no wheel; run: python dev.py nox -s package")
    return found[0]


@pytest.fixture(scope="session")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of an environment with the wheel and its requirements, with our hashes."""
    folder = tmp_path_factory.mktemp("alone") / "environment"
    subprocess.run(["uv", "venv", "--quiet", folder], check=True)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    install = ["uv", "pip", "install", "--quiet", "--python", scripts / "python"]
    subprocess.run([*install, "-c", ROOT / "constraints" / "core.txt", wheel], check=True)
    return scripts


def run(scripts: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PROMPT_COEVO_", "PYTHON"))
    }
    return subprocess.run(
        [scripts / command[0], *command[1:]],
        cwd=scripts,  # not the checkout, whose sources would come first
        env={**environment, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_version_is_the_one_in_the_sources(scripts: Path, wheel: Path) -> None:
    text = (ROOT / "prompt_coevo" / "__init__.py").read_text("utf-8")
    version = re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    assert version == [wheel.name.split("-")[1]]
    shown = run(scripts, "prompt-coevo", "--version")
    assert (shown.returncode, shown.stdout.strip()) == (0, version[0])
    code = "from importlib import metadata; print(metadata.version('prompt-coevo'))"
    assert run(scripts, "python", "-c", code).stdout.strip() == version[0]


def test_no_torch_and_no_framework_come_with_it(scripts: Path) -> None:
    code = "from importlib import metadata; print(*(one.name for one in metadata.distributions()))"
    here = {name.lower() for name in run(scripts, "python", "-c", code).stdout.split()}
    assert here >= {"prompt-coevo", "numpy", "pydantic"}
    assert here & HEAVY == set()


def test_its_presets_and_settings_are_there(scripts: Path) -> None:
    shown = run(scripts, "prompt-coevo", "presets", "list")
    presets = {path.stem for path in (ROOT / "prompt_coevo" / "presets").glob("*.toml")}
    assert shown.returncode == 0, shown.stderr
    assert {line.split()[0] for line in shown.stdout.splitlines()} == presets
    table = run(scripts, "prompt-coevo", "settings", "--table")
    assert table.returncode == 0, table.stderr
    assert "`p2o.hardness`" in table.stdout


def test_a_search_runs_without_any_extra(scripts: Path) -> None:
    """Runs the engine, a method and the meta-prompt files; a function's reply gives a candidate."""
    code = (
        "from prompt_coevo import Coevolution, Settings\n"
        "engine = Coevolution.from_settings(\n"
        "    Settings(reflection={'function': lambda prompt: '<template>k</template>'}))\n"
        "print(type(engine).__name__, sorted(engine.metrics())[:1])"
    )
    shown = run(scripts, "python", "-c", code)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("Coevolution")


def test_what_needs_an_extra_says_which(scripts: Path) -> None:
    refused = run(scripts, "prompt-coevo", "demo")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "pip install 'prompt-coevo[demo]'" in refused.stderr


def test_verl_finds_the_flag(scripts: Path) -> None:
    code = (
        "from importlib.metadata import entry_points\n"
        "print(*(one.value for one in entry_points(group='verl.plugins')))"
    )
    shown = run(scripts, "python", "-c", code)
    assert shown.stdout.strip() == "prompt_coevo.adapters.verl.plugin"
