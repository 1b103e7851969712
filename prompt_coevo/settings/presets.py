"""The named sets of values that come with the package, as texts."""

from __future__ import annotations

from importlib import resources

from prompt_coevo.errors import SettingsError
from prompt_coevo.registry import nearest


def preset_names() -> list[str]:
    """The presets that come with the package."""
    files = (resources.files("prompt_coevo") / "presets").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def preset_text(name: str) -> str:
    """The TOML text of a preset. Raises SettingsError if there is none of that name."""
    known = preset_names()
    if name not in known:
        hint = nearest(name, known, f"; known presets: {', '.join(known)}")
        raise SettingsError(f"there is no preset {name!r}{hint}")
    return (resources.files("prompt_coevo") / "presets" / f"{name}.toml").read_text("utf-8")
