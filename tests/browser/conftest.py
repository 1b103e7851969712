"""Fixtures for Chromium, where the machine has it, and for the pages of runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from helpers.journals import INSPO, P2O, STREAM, run_in
from prompt_coevo.report.page import page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine: apt-get install chromium")
    with sync_playwright() as playwright:
        # As root, and in most containers, Chromium's sandbox is not available.
        yield playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the run files of one P2O, one stream and one INSPO run."""
    runs = {"p2o": P2O, "stream": STREAM, "inspo": INSPO}
    found = {}
    for name, settings in runs.items():
        folder = run_in(tmp_path_factory.mktemp("runs") / name, settings)
        found[name] = folder / "report.html"
        found[name].write_text(page(folder), "utf-8")
    return found


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a file or an address in its own window, with `width`, `theme` and JavaScript on or off."""
    contexts = []

    def open_page(
        where: Path | str, *, width: int = 1280, theme: str = "light", script: bool = True
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=theme,  # type: ignore[arg-type]
            java_script_enabled=script,
        )
        context.set_default_timeout(300_000)  # a busy machine opens a page in minutes
        contexts.append(context)
        shown = context.new_page()
        shown.goto(where if isinstance(where, str) else where.as_uri())
        return shown

    yield open_page
    for context in contexts:
        context.close()
