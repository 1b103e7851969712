"""Refuse a built site that loads anything from elsewhere, or links a file that is not in it.

python tools/check_site.py FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# An element's attribute that makes a browser load something.
LOADS = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}


class Links(HTMLParser):
    """Collect addresses: `loaded` are fetched by a browser itself, `led_to` are links."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.led_to: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        canonical = ("rel", "canonical") in attrs
        for name, value in attrs:
            if value and (tag, name) in LOADS and not canonical:
                self.loaded.append(value)
            elif value and (tag, name) == ("a", "href"):
                self.led_to.append(value)


def problems(folder: Path) -> Iterator[str]:
    """Yield a sentence for each problem."""
    for page in sorted(folder.rglob("*.html")):
        links = Links()
        links.feed(page.read_text("utf-8"))
        name = page.relative_to(folder)
        for address in links.loaded:
            if urlsplit(address).netloc:
                yield f"{name} loads {address}"
        for address in [*links.loaded, *links.led_to]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or not parts.path or page.name == "404.html":
                continue
            if not (page.parent / unquote(parts.path)).exists():
                yield f"{name} leads to {address}, which is not there"


def main(folder: Path) -> int:
    pages = len(list(folder.rglob("*.html")))
    found = list(problems(folder))
    print("\n".join([*found, f"{pages} pages, {len(found)} problems"]))
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
