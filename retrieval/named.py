"""Retrievers and analyzers chosen by name, built in or third-party.

A name is one registered in `prompt_coevo.registry`, or a place, `module:attribute`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from prompt_coevo import registry
from prompt_coevo.errors import CoevoError, SettingsError
from prompt_coevo.retrieval.analyzer import Analyzer
from prompt_coevo.retrieval.retriever import Retriever, described


def open_retriever(
    name: str, options: Mapping[str, Any] | None = None, setting: str = "retriever"
) -> Retriever:
    """Call the factory of this name with the options. `setting` names the origin for errors.

    Raises SettingsError for an unknown name, a place that cannot be imported, options that do not fit, and
    a result that is not a retriever.
    """
    retriever: Retriever = _opened("retrievers", name, options or {}, setting, Retriever)
    return retriever


def open_analyzer(
    name: str, options: Mapping[str, Any] | None = None, setting: str = "analyzer"
) -> Analyzer:
    """Open an analyzer like a retriever. Raises MissingExtraError, too, if a package is missing."""
    analyzer: Analyzer = _opened("analyzers", name, options or {}, setting, Analyzer)
    return analyzer


def _opened(
    kind: registry.Kind, name: str, options: Mapping[str, Any], setting: str, protocol: type
) -> Any:
    factory = registry.load(kind, name, setting)
    where, product = f"{setting} = {name!r}", protocol.__name__.lower()
    made = _made(factory, options, where, f"{'an' if product[0] == 'a' else 'a'} {product}")
    methods = [own for own in vars(protocol) if not own.startswith("_")]
    missing = [method for method in methods if not callable(getattr(made, method, None))]
    if missing:
        raise SettingsError(
            f"{where} made {described(made)}, which is no {product}: it lacks {' and '.join(missing)}; "
            f"see {protocol.__module__}.{protocol.__name__}"
        )
    return made


def _check_options(factory: Callable[..., Any], options: Mapping[str, Any], where: str) -> None:
    try:
        signature = inspect.signature(factory)
    except ValueError:  # C functions may have none
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
            f"{where} is {described(factory)}, but must be a function that makes {product}"
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
