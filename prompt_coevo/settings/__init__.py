"""All settings, one section a file; a method brings its own. The defaults are the papers' values."""

from prompt_coevo.settings.method import Method, may_distil
from prompt_coevo.settings.model import Settings, method_choices, parse_section, setting_fields

__all__ = ["Method", "Settings", "may_distil", "method_choices", "parse_section", "setting_fields"]
