"""Run P2O's template search with the package gepa (arXiv 2507.19457)."""

from typing import Final

from prompt_coevo import Method
from prompt_coevo_gepa.settings import GepaSettings

METHOD: Final = Method("gepa", plugin="prompt_coevo_gepa.plugin:Gepa", section=GepaSettings)
