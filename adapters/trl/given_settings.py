"""Settings as a user passes them to an adapter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from prompt_coevo.errors import SettingsError
from prompt_coevo.settings import Settings
from prompt_coevo.settings.reflection import is_model_name
from prompt_coevo.settings.sources import SUFFIXES

GivenSettings: TypeAlias = Settings | Mapping[str, object] | str | Path | None


def settings_of(given: GivenSettings, values: Mapping[str, object]) -> Settings:
    """Build Settings from what is given and from keywords.

    `given` is the path of a TOML or YAML file, which keywords override; a mapping that shares no name with
    the keywords; a Settings object, without keywords; or None. Raises SettingsError.
    """
    if isinstance(given, Settings):
        if values:
            raise SettingsError(
                f"{', '.join(values)} cannot be set beside a Settings object; give it to Settings(...), or "
                "give all settings as keywords"
            )
        return given
    if isinstance(given, str) and Path(given).suffix not in SUFFIXES and not Path(given).exists():
        name = given if is_model_name(given) else "openai/gpt-5"
        raise SettingsError(
            f"the settings are a text, but not the path of a settings file ({', '.join(SUFFIXES)}); to "
            f'name the reflection model, write reflection="{name}"'
        )
    if isinstance(given, str | Path):
        return Settings(**{"config_file": given, **values})
    if given is not None and not isinstance(given, Mapping):
        raise SettingsError(
            f"settings must be names and values or the path of a file, but are a {type(given).__name__}"
        )
    if twice := sorted(set(given or ()) & set(values)):
        raise SettingsError(f"{', '.join(twice)} is given twice, as a keyword too; leave one out")
    return Settings(**{**(given or {}), **values})
