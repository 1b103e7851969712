from __future__ import annotations

import pytest

from standins.ray_start import ATTEMPTS, patiently, start_patiently


class Node:
    def __init__(self, late: int, said: str = "The current node timed out during startup.") -> None:
        self.late, self.said, self.calls = late, said, 0

    def init(self, number: int, *, option: str) -> tuple[int, str]:
        self.calls += 1
        if self.calls <= self.late:
            raise Exception(self.said)
        return number, option


def test_a_node_that_is_late_is_started_again() -> None:
    assert patiently(Node(2).init, 1, option="a") == (1, "a")
    module = Node(2)
    start_patiently(module)
    assert module.init(1, option="a") == (1, "a")


def test_what_else_is_raised_is_raised() -> None:
    other = Node(1, "no room on the disk")
    with pytest.raises(Exception, match="no room"):
        patiently(other.init, 1, option="a")
    never = Node(ATTEMPTS)
    with pytest.raises(Exception, match="timed out"):
        patiently(never.init, 1, option="a")
    assert never.calls == ATTEMPTS
