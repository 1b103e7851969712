"""The named sets of values that come with the package, as texts."""

from __future__ import annotations

from importlib import resources

from prompt_coevo.errors import SettingsError


def preset_names() -> list[str]:
    """The presets that come with the package."""
    files = (resources.files("prompt_coevo") / "presets").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def preset_text(name: str) -> str:
    """The TOML text of a preset. Raises SettingsError if there is none of that name."""
    if name not in preset_names():
        # Late: a preset is shown without what checks settings.
        from prompt_coevo.settings.mistakes import near_choice

        raise SettingsError(
            f"there is no preset {name!r}{near_choice(name, preset_names(), 'known presets')}"
        )
    return (resources.files("prompt_coevo") / "presets" / f"{name}.toml").read_text("utf-8")
