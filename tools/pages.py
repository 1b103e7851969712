"""Write the documentation pages that are generated from the code; a test checks that they are current.

    python tools/pages.py        with the package installed, as in `python dev.py nox -s docs`

docs/cli.md, docs/capabilities.md, docs/features.md and docs/laws.md.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from page_capabilities import capabilities_page  # noqa: E402
from page_features import features_page  # noqa: E402
from page_laws import laws_page  # noqa: E402

_DOCS = ("-m", "typer", "prompt_coevo.cli", "utils", "docs", "--name", "prompt-coevo")
_CLI = """\
<!-- Made by tools/pages.py: `typer ... utils docs`. -->

"""


def cli_page() -> str:
    """Run typer's own `utils docs`. Its usage lines are no commands that a reader or a test could run."""
    command = [sys.executable, *_DOCS, "--title", "The command line"]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return _CLI + made.replace("```console\n$ ", "```text\n")


PAGES = {
    "docs/cli.md": cli_page,
    "docs/capabilities.md": capabilities_page,
    "docs/features.md": features_page,
    "docs/laws.md": laws_page,
}


def main() -> None:
    for name, made in PAGES.items():
        (ROOT / name).write_text(made(), "utf-8", newline="\n")
        print(name)


if __name__ == "__main__":
    main()
