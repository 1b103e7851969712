"""What the site needs besides the pages as they stand in the repository.

A link that leads out of `docs/` becomes one into the repository where its address is known (`Repository`
under `[project.urls]` in pyproject.toml), else its text. README, CONTRIBUTING and CHANGELOG are pages of
the site.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

DOCS: Final = Path(__file__).resolve().parent.parent
ROOT_PAGES: Final = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK: Final = re.compile(
    r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)"
)


def on_config(config: Any) -> Any:
    moved = tomllib.loads((DOCS / "site" / "moved.toml").read_text("utf-8"))
    config.plugins["redirects"].config["redirect_maps"] = moved
    package = tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf-8"))["project"]
    config.repo_url = package.get("urls", {}).get("Repository")
    return config


def on_files(files: Files, config: Any) -> Files:
    style = (DOCS / "site" / "site.css").read_text("utf-8")
    files.append(File.generated(config, "site.css", content=style))
    for name, page in ROOT_PAGES.items():
        text = (DOCS.parent / name).read_text("utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    here = {ours: name for name, ours in ROOT_PAGES.items()}.get(page.file.src_uri)
    folder = "" if here else posixpath.join("docs", posixpath.dirname(page.file.src_uri))
    return _LINK.sub(
        lambda found: link(found, folder, page.file.src_uri, config.repo_url), markdown
    )


def link(found: re.Match[str], folder: str, page: str, repository: str | None) -> str:
    """A link, or a picture, as it leads from this page of the site to the same place."""
    mark, text, target, anchor = found[1], found[2], found[3], found[4] or ""
    place = posixpath.normpath(posixpath.join(folder, target))
    if place in ROOT_PAGES:
        place = posixpath.join("docs", ROOT_PAGES[place])
    if place.startswith("docs/") and not (DOCS.parent / place).is_dir():
        ours = posixpath.relpath(place, posixpath.join("docs", posixpath.dirname(page)))
        return f"{mark}[{text}]({ours}{anchor})"
    if repository:
        kind = "tree" if (DOCS.parent / place).is_dir() else "blob"
        return f"[{text}]({repository.rstrip('/')}/{kind}/main/{place}{anchor})"
    return text if place in text else f"{text} (`{place}`)"
