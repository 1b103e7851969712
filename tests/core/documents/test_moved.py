"""Check that `docs/site/moved.toml` leads every page that moved to a heading that exists."""

from __future__ import annotations

import re
import tomllib

from helpers.documented import ROOT

DOCS = ROOT / "docs"
TEXT = (DOCS / "site" / "moved.toml").read_text("utf-8")
MOVED: dict[str, str] = tomllib.loads(TEXT)
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as the site and GitHub make them."""
    text = _FENCED.sub("", (DOCS / page).read_text("utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in headings}


def test_a_moved_page_is_gone_and_leads_to_a_heading() -> None:
    assert MOVED
    for old, new in MOVED.items():
        page, _, anchor = new.partition("#")
        assert not (DOCS / old).exists(), f"{old} is still there"
        assert anchor in anchors(page), f"{old}: {page} has no heading #{anchor}"


def test_the_pages_are_sorted() -> None:
    assert list(MOVED) == sorted(MOVED)
