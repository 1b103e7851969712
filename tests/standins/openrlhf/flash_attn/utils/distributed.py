"""Define the names only."""

from __future__ import annotations

from typing import NoReturn


def all_gather(*_: object, **__: object) -> NoReturn:
    raise NotImplementedError("flash_attn, which ring attention needs")
