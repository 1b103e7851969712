"""Writes the pages of the documentation that are made from the code; a test compares them with it.

    python tools/pages.py        with the package installed, as in `python dev.py nox -s docs`

docs/cli.md, docs/capabilities.md, docs/features.md and docs/api.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from page_api import api_page  # noqa: E402
from page_capabilities import capabilities_page  # noqa: E402
from page_cli import cli_page  # noqa: E402
from page_features import features_page  # noqa: E402

PAGES = {
    "docs/cli.md": cli_page,
    "docs/capabilities.md": capabilities_page,
    "docs/features.md": features_page,
    "docs/api.md": api_page,
}


def main() -> None:
    for name, made in PAGES.items():
        (ROOT / name).write_text(made(), "utf-8", newline="\n")
        print(name)


if __name__ == "__main__":
    main()
