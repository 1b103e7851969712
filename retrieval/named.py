"""Retrievers and analyzers that are chosen by name, built in or somebody else's.

A name is one that `prompt_coevo.registry` knows, or a place, `module:attribute`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from prompt_coevo import registry
from prompt_coevo.errors import CoevoError, SettingsError
from prompt_coevo.retrieval.analyzer import Analyzer
from prompt_coevo.retrieval.retriever import Retriever

_METHODS: Final = ("search", "info", "close")


def open_retriever(
    name: str, options: Mapping[str, Any] | None = None, setting: str = "retriever"
) -> Retriever:
    """What the factory of this name makes of the options; `setting` is who asked, for errors.

    Raises SettingsError for a name that nobody offers, a place that cannot be imported, options that do
    not fit, and what is no retriever.
    """
    options = options or {}
    factory = registry.load("retrievers", name, setting)
    where = f"{setting} = {name!r}"
    retriever: Retriever = _made(factory, options, where, "a retriever")
    missing = [one for one in _METHODS if not callable(getattr(retriever, one, None))]
    if missing:
        raise SettingsError(
            f"{where} made {_described(retriever)}, which is no retriever: it lacks "
            f"{' and '.join(missing)}; see prompt_coevo.retrieval.retriever.Retriever"
        )
    return retriever


def open_analyzer(
    name: str, options: Mapping[str, Any] | None = None, setting: str = "analyzer"
) -> Analyzer:
    """What the factory of this name makes of the options; `setting` is who asked, for errors.

    Raises SettingsError as `open_retriever` does, MissingExtraError if a package is missing.
    """
    factory = registry.load("analyzers", name, setting)
    where = f"{setting} = {name!r}"
    analyzer: Analyzer = _made(factory, options or {}, where, "an analyzer")
    if not callable(getattr(analyzer, "words", None)):
        raise SettingsError(
            f"{where} made {_described(analyzer)}, which is no analyzer: it lacks words; see "
            "prompt_coevo.retrieval.analyzer.Analyzer"
        )
    return analyzer


def _check_options(factory: Callable[..., Any], options: Mapping[str, Any], where: str) -> None:
    try:
        signature = inspect.signature(factory)
    except ValueError:  # functions of C may have none
        return
    try:
        signature.bind(**options)
    except TypeError as error:
        taken = ", ".join(signature.parameters) or "none"
        raise SettingsError(
            f"{where} does not take these options: {error}; it takes: {taken}"
        ) from None


def _made(factory: Any, options: Mapping[str, Any], where: str, product: str) -> Any:
    if not callable(factory):
        raise SettingsError(
            f"{where} is {_described(factory)}, but must be a function that makes {product}"
        )
    _check_options(factory, options, where)
    try:
        return factory(**options)
    except CoevoError:
        raise
    except Exception as error:
        raise SettingsError(
            f"{where} could not be opened: {type(error).__name__}: {error}"
        ) from error


def _described(value: object) -> str:
    if value is None:
        return "None"
    return (
        f"the class {value.__qualname__}"
        if isinstance(value, type)
        else f"a {type(value).__name__}"
    )
