"""A run as one self-contained HTML file: no network, readable without scripts, any width and theme.

`visible` makes control characters in texts harmless, then the template engine escapes them. The page's
Content-Security-Policy forbids loading anything from elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from pathlib import Path
from typing import Final

from prompt_coevo import __version__
from prompt_coevo.extras import require
from prompt_coevo.preflight.page import plural
from prompt_coevo.report.reading import read_run
from prompt_coevo.report.run import Run
from prompt_coevo.visible import in_a_line, visible

_TEXT: Final = 4_000
_SHORT: Final = 300


def need_extra() -> None:
    """Raise MissingExtraError unless the packages for the page are installed."""
    require("jinja2", "matplotlib", extra="report", purpose="the report")


def page(folder: Path) -> str:
    """Return the HTML of a run's folder. Raise RunError or MissingExtraError."""
    return page_of(read_run(folder))


def page_of(run: Run, *, live: bool = False, state: str = "") -> str:
    """Return the HTML of a run. A `live` page polls its server, which marks each version by its `state`.
    Raise MissingExtraError."""
    need_extra()
    import jinja2
    from markupsafe import Markup

    from prompt_coevo.report.charts import chart
    from prompt_coevo.report.view import SYMBOLS, View

    def shown(value: object) -> str:
        """Make an expression's value visible. Applied to all of the template, so that none is forgotten."""
        return value if isinstance(value, Markup) else visible(value)

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        text=lambda text: visible(text, _TEXT),
        short=lambda text: visible(text, _SHORT),
        line=lambda text: in_a_line(text, _SHORT),
        brief=lambda text: in_a_line(text, 70),
        number=_number,
        plural=plural,
    )
    script = _file("page.js") + (_file("live.js") if live else "")
    folder = Path(run.folder).resolve()
    html: str = environment.from_string(_file("page.html.jinja")).render(
        view=View(run),
        run=run,
        name=folder.parent.name if folder.name == "coevo" else folder.name,
        version=__version__,
        live=live,
        state=state,
        symbols=SYMBOLS,
        chart=chart,
        # Safe markup: the package's own files.
        style=Markup(_file("page.css")),
        script=Markup(script),
        policy=policy(script, live=live),
    )
    return html


def policy(script: str, *, live: bool) -> str:
    """Return the Content-Security-Policy: our script by its hash, styles, and nothing from elsewhere."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    connect = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def _number(value: float | None) -> str:
    """Write a number with three digits; None as an empty text."""
    return "" if value is None else f"{value:.3g}"


def _file(name: str) -> str:
    return resources.files("prompt_coevo.report").joinpath(name).read_text("utf-8")
