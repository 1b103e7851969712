"""Where the base policy of the first draw is."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from prompt_coevo.demo.facts.world import World
from prompt_coevo.errors import SettingsError


def base_path(world: World) -> Path:
    """The folder of the base policy that comes with the package; only the first draw has one."""
    if world.draw:
        raise SettingsError(
            f"draw {world.draw} of the world needs a base policy of its own: make one with "
            f"python -m prompt_coevo.demo.facts.pretrain --draw {world.draw} --out DIR"
        )
    return Path(str(resources.files("prompt_coevo.demo.facts") / "base"))
