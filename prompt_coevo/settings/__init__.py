"""All settings, one section a file. The defaults are the papers' values."""

from prompt_coevo.settings.model import METHODS, Settings, parse_section, setting_fields

__all__ = ["METHODS", "Settings", "parse_section", "setting_fields"]
