#!/usr/bin/env python3
"""Make the pictures of docs/report.md: reports of runs, as Chromium shows them.

    python tools/report_pictures.py [STREAM_RUN INSPO_RUN]

The runs are output folders. Those in docs are runs/stream-seed0 of `prompt-coevo demo --arms stream --out
runs`, and runs/inspo-seed0 of `prompt-coevo demo --arms inspo --budget 6144 --out runs`. Without arguments
two are made by the engine and a rule-based policy, in seconds. Needs the packages of the session `browser`,
and Chromium on the PATH.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from prompt_coevo.report.page import page
from prompt_coevo.report.reading import run_folder

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
SHOTS = (
    ("report-stream.png", 0, 1280, "light", "h1"),
    ("report-candidate.png", 0, 1280, "light", "details.card[open]"),
    ("report-inspo-phone.png", 1, 360, "dark", "#curves"),
)
"""File, run, width, theme, and the element at the top."""


def main(runs: list[str]) -> int:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if len(runs) not in (0, 2) or chromium is None:
        print(__doc__, file=sys.stderr)
        return 2
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        runs = runs or made(Path(folder))
        files = [Path(folder) / f"{number}.html" for number in range(2)]
        for path, run in zip(files, runs, strict=True):
            path.write_text(page(run_folder(Path(run))), "utf-8")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, number, width, theme, top in SHOTS:
            shown = browser.new_page(viewport={"width": width, "height": 860}, color_scheme=theme)  # type: ignore[arg-type]
            shown.goto(files[number].as_uri())
            # One that won a trial or came into use says most.
            shown.evaluate(
                "(document.querySelector('details.card:has(h3 ~ .scroll)') "
                "|| document.querySelector('details.card')).open = true"
            )
            shown.evaluate("(top) => document.querySelector(top).scrollIntoView()", top)
            shown.screenshot(path=PICTURES / name)
            print(PICTURES / name, (PICTURES / name).stat().st_size)
        browser.close()
    return 0


def made(folder: Path) -> list[str]:
    """Make a run of stream and one of INSPO."""
    sys.path.insert(0, str(PICTURES.parents[1] / "tests"))
    from helpers.journals import INSPO, STREAM, run_in

    runs = {"stream-run": STREAM, "inspo-run": INSPO}
    return [str(run_in(folder / name, settings)) for name, settings in runs.items()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
