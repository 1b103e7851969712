"""The adapter for TRL: `trainer.add_callback(CoevoCallback(trainer, settings))`.

TRL and torch are imported only when one of the two names is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prompt_coevo.adapters.trl.launch import CoevoCallback, attach

__all__ = ["CoevoCallback", "attach"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from prompt_coevo.extras import require

    require("trl", "transformers", "torch", extra="trl", purpose="the adapter for TRL")
    from prompt_coevo.adapters.trl import launch

    return getattr(launch, name)
