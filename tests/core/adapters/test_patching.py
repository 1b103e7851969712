from __future__ import annotations

from collections.abc import Callable

import pytest

from prompt_coevo.adapters.common.patching import is_wrapped, swapped, wrap
from prompt_coevo.errors import HostError


class Host:
    size = 3

    def double(self, number: int) -> int:
        """Return twice the number."""
        return 2 * number


def one_more(original: Callable[[int], int], number: int) -> int:
    return original(number) + 1


def test_one_object_is_wrapped_and_its_class_is_not() -> None:
    host, other = Host(), Host()
    wrap(host, "double", one_more)
    assert (host.double(4), other.double(4)) == (9, 8)
    assert (is_wrapped(host, "double"), is_wrapped(other, "double")) == (True, False)
    assert host.double.__doc__ == "Return twice the number."


def test_wrapping_twice_is_refused() -> None:
    host = Host()
    wrap(host, "double", one_more)
    with pytest.raises(HostError, match="prompt_coevo is already attached to this Host"):
        wrap(host, "double", one_more)
    assert host.double(4) == 9


def test_a_method_that_is_not_there() -> None:
    with pytest.raises(HostError, match="Host has no method halve, .* wraps; use Host 2"):
        wrap(Host(), "halve", one_more, "use Host 2")


def test_an_attribute_of_the_object_comes_back() -> None:
    host = Host()
    host.size = 5
    with swapped(host, "size", 7):
        assert host.size == 7
    assert host.size == 5


def test_an_attribute_of_the_class_is_uncovered_again_even_after_an_error() -> None:
    host = Host()
    with pytest.raises(KeyError), swapped(host, "size", 7):
        raise KeyError
    assert "size" not in vars(host)
    assert host.size == 3
