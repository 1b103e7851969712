#!/usr/bin/env python3
"""Everything a fresh machine needs: Python 3.11 or newer and git.

    python dev.py demo [options]    set up and run the demo (`prompt-coevo demo --help` for options)
    python dev.py test              set up and run linters and tests
    python dev.py test --quick      linters, the core's tests and retrieval's alone
    python dev.py test --all        all tests but those of minutes each, which docs/testing.md names
    python dev.py nox [options]     run nox with any other session (`python dev.py nox --list`)

Environments are made under .nox in the checkout, or under $COEVO_ENVDIR, and reused if they are
still valid.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOOLS = HERE / "constraints" / "tools.txt"
QUICK_SESSIONS = ("lint", "core", "retrieval")
TEST_SESSIONS = (
    *QUICK_SESSIONS,
    "trl",
    "verl",
    "openrlhf",
    "browser",
    "docs",
    "package",
)


def main(arguments: list[str]) -> int:
    if sys.version_info < (3, 11):  # noqa: UP036
        print("error: Python 3.11 or newer is needed", file=sys.stderr)
        return 2
    command, rest = arguments[:1], arguments[1:]
    if command == ["demo"]:
        return nox(["-s", "demo", "--", *rest])
    if command == ["test"] and rest in ([], ["--quick"], ["--all"]):
        os.environ["COEVO_TESTS"] = rest[0].removeprefix("--") if rest else "usual"
        return nox(["-s", *(QUICK_SESSIONS if rest == ["--quick"] else TEST_SESSIONS)])
    if command == ["nox"]:
        return nox(rest)
    print(__doc__.strip(), file=sys.stderr)
    return 2


def nox(arguments: list[str]) -> int:
    """Run nox from an environment of its own."""
    folder = Path(os.environ.get("COEVO_ENVDIR") or HERE / ".nox").resolve()
    scripts = tools(folder / "tools")
    environment = {
        **os.environ,
        **uv_settings(scripts),
        "PATH": os.pathsep.join([str(scripts), os.environ.get("PATH", "")]),
    }
    command = [
        scripts / "nox",
        "--noxfile",
        HERE / "noxfile.py",
        "--envdir",
        folder,
        "-r",
        *arguments,
    ]
    return subprocess.run(command, env=environment, check=False).returncode


def tools(folder: Path) -> Path:
    """Make the environment with nox and uv, unless it is there, and return its folder of scripts."""
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    stamp = folder / "installed.txt"
    wanted = f"{sys.version}\n{TOOLS.read_text('utf-8')}"
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        python = scripts / "python"
        install = [python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", TOOLS]
        subprocess.run(install, check=True)
        stamp.write_text(wanted, "utf-8")
    return scripts


def uv_settings(scripts: Path) -> dict[str, str]:
    """uv does not read pip's configuration, so what pip would use is handed on."""
    found = {"UV_HTTP_TIMEOUT": os.environ.get("UV_HTTP_TIMEOUT", "180")}
    for option, ours in {"find-links": "UV_FIND_LINKS", "index-url": "UV_DEFAULT_INDEX"}.items():
        value = (
            os.environ.get(f"PIP_{option.replace('-', '_').upper()}")
            or subprocess.run(
                [scripts / "python", "-m", "pip", "config", "get", f"global.{option}"],
                capture_output=True,
                text=True,
                check=False,
            ).stdout.strip()
        )
        if value and ours not in os.environ:
            found[ours] = ",".join(value.split()) if option == "find-links" else value
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
