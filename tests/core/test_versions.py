"""Check the versions that are tested periodically: within the package's ranges, oldest to ours."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
VERSIONS = tomllib.loads((ROOT / "constraints/versions.toml").read_text("utf-8"))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


@pytest.mark.parametrize("framework", VERSIONS)
def test_the_versions_begin_with_the_lower_bound_and_end_with_what_the_tests_have(
    framework: str,
) -> None:
    (asked,) = [one for one in map(Requirement, EXTRAS[framework]) if one.name == framework]
    (lowest,) = [Version(one.version) for one in asked.specifier if one.operator == ">="]
    tested = [Version(one) for one in VERSIONS[framework]["tested"]]
    assert tested == sorted(tested)
    assert tested[0] == lowest
    assert all(asked.specifier.contains(one) for one in tested)
    pins = (ROOT / f"constraints/{framework}.txt").read_text("utf-8")
    assert re.search(rf"^{framework}==(\S+)", pins, re.M)[1] == str(tested[-1])


def test_every_framework_with_an_adapter_has_its_versions() -> None:
    adapters = {path.parent.name for path in ROOT.glob("adapters/*/launch.py")}
    assert set(VERSIONS) == adapters


def test_the_scheduled_run_reads_the_file() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "tools/versions.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    matrix = [(one["framework"], one["version"]) for one in json.loads(run.stdout)]
    assert matrix == [
        (name, version) for name, of in VERSIONS.items() for version in [*of["tested"], "main"]
    ]
    workflow = (ROOT / ".github/workflows/versions.yml").read_text("utf-8")
    assert "python tools/versions.py" in workflow
    assert "nox -s versions -- ${{ matrix.framework }} ${{ matrix.version }}" in workflow
