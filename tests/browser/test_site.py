"""Check the documentation's first pages in a real browser: two widths, two themes, axe.

The session `docs` builds the site and names its folder in COEVO_SITE.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

Open = Callable[..., Page]


@pytest.fixture
def site() -> Path:
    if "COEVO_SITE" not in os.environ:
        pytest.skip("there is no site: python dev.py nox -s docs builds it and runs this")
    return Path(os.environ["COEVO_SITE"])


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index", "quickstart"])
def test_a_page_fits_and_axe_finds_nothing(
    name: str, theme: str, width: int, site: Path, opened: Open
) -> None:
    shown = opened(site / f"{name}.html", width=width, theme=theme)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(shown)
    assert found.violations_count == 0, found.generate_report()


def test_the_tabs_show_one_trainer_at_a_time(site: Path, opened: Open) -> None:
    shown = opened(site / "index.html")
    assert shown.get_by_text("attach(trainer").first.is_visible()
    shown.locator("label", has_text="OpenRLHF").first.click()
    assert not shown.get_by_text("attach(trainer").first.is_visible()
    assert shown.get_by_text("--coevo.method").first.is_visible()


def test_an_old_address_leads_to_the_page_of_today(site: Path, opened: Open) -> None:
    shown = opened(site / "streaming.html")
    shown.wait_for_url("**/methods.html*")
