"""Check the hashed requirements: complete, without an index, within the package's ranges, and used."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "constraints"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ENVIRONMENTS = tomllib.loads((FOLDER / "environments.toml").read_text("utf-8"))
HASHED = re.compile(r"([a-z0-9-]+)==([^\s;]+)( ; [^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n")


def requirements(name: str) -> str:
    text = (FOLDER / f"{name}.txt").read_text("utf-8")
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))


def pins(name: str) -> dict[str, list[str]]:
    """Return the versions of each package; platforms may differ."""
    found: dict[str, list[str]] = {}
    for package, version, *_ in HASHED.findall(requirements(name)):
        found.setdefault(package, []).append(version)
    return found


def asked_for(name: str) -> list[Requirement]:
    environment = ENVIRONMENTS[name]
    asked = [*environment.get("packages", []), *environment.get("without_requirements", [])]
    extras = list(environment.get("extras", []))
    if extras:
        asked += PROJECT["dependencies"]
    while extras:
        for text in PROJECT["optional-dependencies"][extras.pop()]:
            one = Requirement(text)
            if one.name == PROJECT["name"]:
                extras += one.extras
            else:
                asked.append(text)
    return [one for one in map(Requirement, asked) if one.name != "torch"]


def test_every_environment_has_its_requirements_and_no_file_is_of_none() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {*ENVIRONMENTS, "torch"}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_requirement_is_one_version_with_hashes(name: str) -> None:
    """Torch has its own file; an option, an address or a bare name would be left over here."""
    assert HASHED.sub("", requirements(name)) == ""
    assert pins(name)
    assert "torch" not in pins(name)


def test_torch_alone_is_exempt() -> None:
    pinned = [Requirement(line) for line in requirements("torch").splitlines()]
    assert {(one.name, one.url) for one in pinned} == {("torch", None)}
    versions = {str(one.specifier).removesuffix("+cpu") for one in pinned}
    assert len(versions) == 1
    (asked,) = (one for one in PROJECT["optional-dependencies"]["encoder"] if "torch" in one)
    assert Requirement(asked).specifier.contains(versions.pop().removeprefix("=="))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_versions_are_within_the_ranges_of_the_package(name: str) -> None:
    pinned = pins(name)
    for one in asked_for(name):
        versions = pinned[canonicalize_name(one.name)]
        assert versions
        for version in versions:
            assert one.specifier.contains(version), f"{name}: {one} is pinned to {version}"


def test_no_dependency_of_the_package_is_without_an_upper_bound() -> None:
    """Except for the linters': a new major version must not change what users get."""
    extras = {name: of for name, of in PROJECT["optional-dependencies"].items() if name != "dev"}
    asked = [Requirement(one) for of in [PROJECT["dependencies"], *extras.values()] for one in of]
    unbound = {
        one.name
        for one in asked
        if not any(part.operator in ("<", "==", "~=") for part in one.specifier)
    }
    assert unbound == {PROJECT["name"]}


def test_no_dependency_of_the_package_is_without_a_lower_bound() -> None:
    """A resolver without alternatives takes the oldest version that exists."""
    extras = PROJECT["optional-dependencies"]
    asked = [Requirement(one) for of in [PROJECT["dependencies"], *extras.values()] for one in of]
    unbound = {
        one.name
        for one in asked
        if not any(part.operator in (">=", "==", "~=") for part in one.specifier)
    }
    assert unbound == {PROJECT["name"]}


class Session:
    """Writes down what a session would install and run."""

    posargs = ()

    def __init__(self, folder: Path, posargs: tuple[str, ...] = ()) -> None:
        self.posargs = posargs
        self.installed: list[tuple[str, ...]] = []
        self.bin = str(folder / "environments" / "own" / "bin")

    def install(self, *arguments: str, **_: Any) -> None:
        self.installed.append(arguments)

    def create_tmp(self) -> str:
        return self.bin

    def log(self, message: str) -> None:
        pass

    def run(self, *arguments: str, **_: Any) -> None:
        pass


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the sessions of noxfile.py, loaded with a nox that only records them."""
    found: dict[str, Any] = {}

    def session(function: Any = None, **_: Any) -> Any:
        if function is None:
            return session
        found[function.__name__] = function
        return function

    nox = ModuleType("nox")
    nox.session = session  # type: ignore[attr-defined]
    nox.options = SimpleNamespace()  # type: ignore[attr-defined]
    nox.command = SimpleNamespace(CommandFailed=OSError)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nox", nox)
    runpy.run_path(str(ROOT / "noxfile.py"))
    return found


INSTALLING = (
    *("sbom", "core", "trl", "verl", "openrlhf", "vllm", "verl_vllm", "openrlhf_vllm"),
    *("package", "extras", "demo", "bench", "unsloth"),
)


@pytest.mark.parametrize(
    ("name", "posargs"),
    [
        *((name, ()) for name in INSTALLING),
        ("retrieval", ("--real-encoder",)),
    ],
)
def test_sessions_install_nothing_without_hashes_but_torch_and_the_checkout(
    sessions: dict[str, Any], name: str, posargs: tuple[str, ...], tmp_path: Path
) -> None:
    session = Session(tmp_path, posargs)
    sessions[name](session)
    build = ("--build-constraints", "constraints/build.txt")
    unhashed = [
        arguments
        for arguments in session.installed
        if arguments[:-1] != ("--require-hashes", "--no-deps", *build, "-r")
    ]
    assert len(unhashed) < len(session.installed)
    assert set(unhashed) <= {
        ("--no-deps", "-r", "constraints/torch.txt"),
        ("--no-deps", *build, "--reinstall-package", "prompt-coevo", "."),
        ("--no-deps", *build, "./tests/standins/vllm_cpu"),
    }


def test_the_tools_are_installed_with_hashes() -> None:
    assert '"--require-hashes", "-r", TOOLS]' in (ROOT / "dev.py").read_text("utf-8")


def test_every_pinned_version_is_looked_up_for_vulnerabilities() -> None:
    looked_up = runpy.run_path(str(ROOT / "tools" / "audit.py"))["versions"]()
    pinned: dict[str, set[str]] = {}
    for name in (*ENVIRONMENTS, "torch"):
        for package, versions in pins(name).items():
            pinned.setdefault(package, set()).update(versions)
    assert {
        name: set(versions) for name, versions in looked_up.items() if name != "torch"
    } == pinned
    assert looked_up["torch"]
