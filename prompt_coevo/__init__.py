"""prompt_coevo: let the prompt learn together with the policy, inside an existing RL trainer.

The public names below are imported lazily, on first use.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prompt_coevo.algorithms.all_settings import Settings
    from prompt_coevo.engine.coevolution import Coevolution
    from prompt_coevo.errors import CoevoError
    from prompt_coevo.markers import hookimpl
    from prompt_coevo.policy import Policy
    from prompt_coevo.settings.method import Cost, Foresight, Method, Workload
    from prompt_coevo.settings.section import Section
    from prompt_coevo.types import (
        Assignment,
        Candidate,
        MemberPlan,
        Question,
        Rollout,
        RolloutRequest,
    )

_HOME = {
    "Assignment": "types",
    "Candidate": "types",
    "CoevoError": "errors",
    "Coevolution": "engine.coevolution",
    "Cost": "settings.method",
    "Foresight": "settings.method",
    "MemberPlan": "types",
    "Method": "settings.method",
    "Policy": "policy",
    "Question": "types",
    "Rollout": "types",
    "RolloutRequest": "types",
    "Section": "settings.section",
    "Settings": "algorithms.all_settings",
    "Workload": "settings.method",
    "hookimpl": "markers",
}

# In a checkout, adapters/ and retrieval/ lie beside this folder; an installation has them inside it.
# With the checkout's root as the working directory, Python finds this folder first, installed or not.
if not os.path.isdir(os.path.join(__path__[0], "adapters")):
    __path__.append(os.path.dirname(__path__[0]))

__version__ = "0.1.0"


__all__ = [
    "Assignment",
    "Candidate",
    "CoevoError",
    "Coevolution",
    "Cost",
    "Foresight",
    "MemberPlan",
    "Method",
    "Policy",
    "Question",
    "Rollout",
    "RolloutRequest",
    "Section",
    "Settings",
    "Workload",
    "hookimpl",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"prompt_coevo.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
