"""Check that the inspection of wheel and sdist finds what it looks for, and check the package's page."""

from __future__ import annotations

import re
import runpy
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TOOL: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "check_package.py"))
INFO = "prompt_coevo-1.dist-info/"
METADATA = b"""Metadata-Version: 2.4
Name: prompt-coevo
Version: 1
Summary: A package
License-Expression: Apache-2.0
Requires-Python: >=3.11
Requires-Dist: numpy<3,>=1
Description-Content-Type: text/markdown

See [the paper](https://arxiv.org/abs/2603.21877) and [below](#below).
"""
OURS = {"prompt_coevo/__init__.py": b"one", "prompt_coevo/py.typed": b""}
WHEEL = {
    **OURS,
    **{INFO + name: b"" for name in TOOL["METADATA"]},
    INFO + "METADATA": METADATA,
}
NAMED = ("LICENSE", "README.md", "docs/index.md", "tests/conftest.py", "dev.py", "noxfile.py")
SDIST = {**OURS, **dict.fromkeys(NAMED, b"")}


def in_wheel(wheel: dict[str, bytes]) -> list[str]:
    return list(TOOL["of_wheel"](wheel, OURS, "1"))


def in_sdist(sdist: dict[str, bytes]) -> list[str]:
    return list(TOOL["of_sdist"](sdist, OURS))


def test_nothing_is_said_of_a_good_one() -> None:
    assert in_wheel(WHEEL) == []
    assert in_sdist(SDIST) == []
    assert list(TOOL["apart"](WHEEL, dict(WHEEL))) == []


def without(name: str) -> dict[str, bytes]:
    return {other: data for other, data in WHEEL.items() if other != name}


@pytest.mark.parametrize(
    ("wheel", "said"),
    [
        (without("prompt_coevo/py.typed"), "the wheel lacks prompt_coevo/py.typed"),
        ({**WHEEL, "tests/test_x.py": b""}, "the wheel has tests/test_x.py, which is no file"),
        ({**WHEEL, "prompt_coevo/__pycache__/x.pyc": b""}, "which is no file of the package"),
        ({**WHEEL, "prompt_coevo/__init__.py": b"two"}, "__init__.py is another one"),
        (without(INFO + "licenses/LICENSE"), "metadata lack licenses/LICENSE"),
        ({**WHEEL, INFO + "METADATA": METADATA.replace(b"Version: 1\n", b"Version: 2\n")}, "version 2"),
        ({**WHEEL, INFO + "METADATA": METADATA.replace(b"#below", b"docs/x.md")}, "'docs/x.md'"),
        (
            {**WHEEL, INFO + "METADATA": METADATA.replace(b"numpy<3,>=1", b"numpy @ file:///numpy")},
            "which an index refuses",
        ),
        ({**WHEEL, INFO + "WHEEL": b"key: " + b"sk-" + b"a1" * 20}, "looks like a key"),
    ],
)  # fmt: skip
def test_each_fault_of_a_wheel_is_one_sentence(wheel: dict[str, bytes], said: str) -> None:
    problems = in_wheel(wheel)
    assert any(said in one for one in problems), problems


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda files: files.pop("prompt_coevo/py.typed"), "lacks prompt_coevo/py.typed"),
        (lambda files: files.update({"prompt_coevo/__init__.py": b"two"}), "has another"),
        (lambda files: files.pop("LICENSE"), "lacks LICENSE"),
        (lambda files: files.update({".env": b""}), "has .env, which belongs to nobody else"),
        (
            lambda files: files.update({"x": b"-----BEGIN " + b"PRIVATE KEY-----"}),
            "looks like a key",
        ),
    ],
)
def test_each_fault_of_a_source_distribution_is_one_sentence(
    change: Callable[[dict[str, bytes]], object], said: str
) -> None:
    files = dict(SDIST)
    change(files)
    (problem,) = in_sdist(files)
    assert said in problem


def test_two_wheels_that_differ_are_told() -> None:
    (problem,) = TOOL["apart"](WHEEL, without("prompt_coevo/py.typed"))
    assert problem.startswith("prompt_coevo/py.typed is not the same")


def test_every_folder_with_code_is_named_as_a_package() -> None:
    """A folder that is not named would be missing only where the package is installed."""
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    found = {
        str(Path(name).parent).replace("/", ".")
        for name in TOOL["mapped"](ROOT)
        if name.endswith((".py", ".toml"))
    }
    assert found == set(setup["packages"])


def test_the_version_has_one_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["dynamic"] == ["version"]
    cited = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    assert cited == [TOOL["version"](ROOT)]


def test_the_page_of_the_package_has_links_that_work_anywhere_and_the_readmes_callback() -> None:
    page = (ROOT / "PACKAGE.md").read_text("utf-8")
    assert not TOOL["RELATIVE_LINK"].search(page)
    assert TOOL["RELATIVE_LINK"].search((ROOT / "README.md").read_text("utf-8"))
    (block,) = re.findall(r"```python\n.*?```", page, re.DOTALL)
    assert block in (ROOT / "README.md").read_text("utf-8")


def test_the_page_of_the_package_names_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    rows = re.findall(r"^\| (.*?) \|", (ROOT / "PACKAGE.md").read_text("utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    assert named == set(project["optional-dependencies"]) - {"dev"}
