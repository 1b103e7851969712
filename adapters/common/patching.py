"""Wrap methods of one object and swap its attributes temporarily; its class stays untouched."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Concatenate, Final, ParamSpec, TypeVar

from prompt_coevo.errors import HostError

P = ParamSpec("P")
T = TypeVar("T")

_MARK: Final = "_wrapped_by_coevo"


def wrap(
    target: object,
    name: str,
    around: Callable[Concatenate[Callable[..., T], P], T],
    advice: str = "install a version of it that this adapter supports",
) -> Callable[[], None]:
    """Replace a method of one object by `around(original, ...)`. Return a function that restores it.

    Restoring raises HostError if something else has replaced the method since.
    Raises HostError if there is no such method, with `advice` on what to do, or if it is already wrapped.
    """
    original: Callable[..., T] | None = getattr(target, name, None)
    kind = type(target).__name__
    if original is None:
        raise HostError(f"{kind} has no method {name}, which prompt_coevo wraps; {advice}")
    if is_wrapped(target, name):
        raise HostError(f"prompt_coevo is already attached to this {kind}; attach it only once")

    @functools.wraps(original)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        return around(original, *args, **kwargs)

    before = vars(target).get(name)

    def undo() -> None:
        if vars(target).get(name) is not wrapped:
            raise HostError(
                f"prompt_coevo cannot be taken out of this {kind}, because something else has replaced its "
                f"{name} since; build a new {kind}"
            )
        if before is None:
            delattr(target, name)
        else:
            setattr(target, name, before)

    setattr(wrapped, _MARK, True)
    setattr(target, name, wrapped)
    return undo


def is_wrapped(target: object, name: str) -> bool:
    """Check whether `wrap` has replaced this method."""
    return hasattr(getattr(target, name, None), _MARK)


@contextmanager
def swapped(target: object, name: str, value: object) -> Iterator[None]:
    """Set an instance attribute to another value inside the block; restore or delete it afterwards."""
    missing = object()
    before = vars(target).get(name, missing)
    setattr(target, name, value)
    try:
        yield
    finally:
        if before is missing:
            delattr(target, name)
        else:
            setattr(target, name, before)
