from __future__ import annotations

from types import SimpleNamespace

import pytest

from standins.ray_start import give_time


class Services:
    """Know the node after this many calls."""

    def __init__(self, late: int) -> None:
        self.late, self.calls = late, 0

    def get_node(self, address: str, *, node: str) -> tuple[str, str]:
        self.calls += 1
        if self.calls <= self.late:
            raise RuntimeError("no node info")
        return address, node


def module(late: int) -> SimpleNamespace:
    return SimpleNamespace(get_node=Services(late).get_node)


def test_a_node_that_is_late_is_waited_for() -> None:
    services = module(late=2)
    give_time(services)
    assert services.get_node("a", node="b") == ("a", "b")


def test_a_node_that_never_comes_is_told() -> None:
    services = module(late=10**9)
    give_time(services, seconds=0.2)
    with pytest.raises(RuntimeError, match="no node info"):
        services.get_node("a", node="b")


def test_time_is_given_once() -> None:
    services = module(late=0)
    give_time(services)
    once = services.get_node
    give_time(services)
    assert services.get_node is once
