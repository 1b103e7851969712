"""Answer `coevo_search` of a P2O run with the package gepa."""

from __future__ import annotations

from prompt_coevo import hookimpl
from prompt_coevo.candidates.searches import SearchRequest, SearchResult
from prompt_coevo.context import Context
from prompt_coevo.errors import SettingsError
from prompt_coevo.extras import MissingExtraError, is_installed


class Gepa:
    """The plugin. Registered under the name `gepa`."""

    def __init__(self, context: Context) -> None:
        if "p2o" not in context.settings.algorithms:
            raise SettingsError(
                'gepa searches for templates of p2o, so it needs both: set algorithms = "p2o,gepa"'
            )
        if not is_installed("gepa"):
            raise MissingExtraError(
                "the method gepa needs the package 'gepa', which is not installed; "
                "run: pip install 'gepa>=0.1.4,<0.2'"
            )
        from prompt_coevo_gepa.search import (
            GepaSearch,
        )  # before training, so that a failure shows at once

        self._search = GepaSearch
        self._context = context

    @hookimpl
    def coevo_search(self, request: SearchRequest) -> SearchResult:
        return self._search(request, self._context).run()
