"""Check that the nodes of the Ray cluster have the same version of this package as the command.

Without the package, actors end in a page of Ray's messages; with another version, a run may continue and
differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from prompt_coevo import __version__
from prompt_coevo.adapters.common.refused import refused
from prompt_coevo.errors import HostError

P = ParamSpec("P")
T = TypeVar("T")


def on_alike_nodes(made: Callable[P, T]) -> Callable[P, T]:
    """Check the nodes before `made`, which OpenRLHF calls when Ray has started and nothing is loaded."""

    def checked(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            check_nodes()
        except HostError as error:
            raise refused(error) from None
        return made(*arguments, **options)

    return checked


def check_nodes() -> None:
    """Raise HostError unless each living node has this version of the package.

    Actors may run on any node. Waits for a process on each, as the actors will.
    """
    nodes = [node for node in ray.nodes() if node["Alive"]]
    look = ray.remote(num_cpus=0)(_look())
    found = ray.get(
        [
            look.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ).remote()
            for node in nodes
        ]
    )
    for node, version in zip(nodes, found, strict=True):
        if version != __version__:
            has = "no prompt-coevo" if version is None else f"prompt-coevo {version}"
            raise HostError(
                f"the node {node['NodeManagerAddress']} of the Ray cluster has {has} where the command "
                f"has {__version__}; install the same prompt-coevo[openrlhf] on all nodes"
            )


def _look() -> Callable[[], str | None]:
    """Return a function that Ray sends by value: a module's function would need this package there."""

    def version() -> str | None:
        try:
            import prompt_coevo
            import prompt_coevo.adapters.openrlhf
        except ModuleNotFoundError:
            return None
        return prompt_coevo.__version__

    return version
