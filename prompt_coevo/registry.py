"""Components chosen by name: built in, installed by another package, or given as `module:attribute`.

Built-in names stand for a `module:attribute`, too. A package offers components by entry points of the
group `prompt_coevo.<kind>`; a program that is not a package calls `register`.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Literal, TypeAlias

from prompt_coevo.errors import CoevoError, PluginError, SettingsError
from prompt_coevo.markers import PROJECT

Kind: TypeAlias = Literal[
    "methods",
    "proposers",
    "gates",
    "sinks",
    "models",
    "likenesses",
    "retrievers",
    "analyzers",
]

DISABLE_PLUGINS_VARIABLE: Final = "PROMPT_COEVO_DISABLE_PLUGINS"
# `prompt_coevo.retrieval.access` reads it.
RETRIEVAL_TOKEN_VARIABLE: Final = "PROMPT_COEVO_RETRIEVAL_TOKEN"

_PROPOSERS: Final = "prompt_coevo.reflection.proposers"
_MODELS: Final = "prompt_coevo.reflection.models"
_LIKENESS: Final = "prompt_coevo.algorithms.stream.likeness"
_ANALYZERS: Final = "prompt_coevo.retrieval.bm25.analyzers"
DEFAULT_METHODS: Final = ("stream",)
"""The methods of a run whose settings name none."""
METHOD_SETS: Final[Mapping[str, tuple[str, ...]]] = {"both": ("inspo", "stream")}
"""Names for several methods, for flags that take a single name."""
_BUILT_IN: Final[Mapping[Kind, Mapping[str, str]]] = {
    "methods": {
        "hints": "prompt_coevo.algorithms.hints:METHOD",
        "inspo": "prompt_coevo.algorithms.inspo:METHOD",
        "p2o": "prompt_coevo.algorithms.p2o:METHOD",
        "stream": "prompt_coevo.algorithms.stream:METHOD",
    },
    "proposers": {
        "propose_improvement": f"{_PROPOSERS}.propose_improvement:ProposeImprovement",
        "reflection": f"{_PROPOSERS}.instructions:Reflection",
        "paraphrase": f"{_PROPOSERS}.instructions:Paraphrase",
        "history": f"{_PROPOSERS}.instructions:History",
    },
    "gates": {"text": "prompt_coevo.candidates.gates:Gates"},
    "sinks": {"journal": "prompt_coevo.engine.journal_sink:JournalSink"},
    "models": {
        "function": f"{_MODELS}:function_model",
        "litellm": f"{_MODELS}:litellm_model",
        "self": f"{_MODELS}:self_model",
    },
    "likenesses": {
        "words": f"{_LIKENESS}:words",
        "none": f"{_LIKENESS}:none",
    },
    "retrievers": {
        "remote": "prompt_coevo.retrieval.client.client:RemoteRetriever",
        "index": "prompt_coevo.retrieval.index.open:served_index",
        "chroma": "prompt_coevo.retrieval.chroma.retriever:Chroma",
        "sharded": "prompt_coevo.retrieval.client.sharded:open_shards",
    },
    "analyzers": {
        "english": f"{_ANALYZERS}:english",
        "lucene": f"{_ANALYZERS}:lucene",
        "snowball": f"{_ANALYZERS}:snowball",
        "unicode": f"{_ANALYZERS}:unicode",
    },
}
_registered: dict[Kind, dict[str, object]] = {kind: {} for kind in _BUILT_IN}


def register(kind: Kind, name: str, component: object) -> None:
    """Offer a component under a name in this process. Raise PluginError if the name is taken."""
    if name in names(kind):
        raise PluginError(
            f"the name {name!r} is taken among the {kind} ({origin(kind, name)}); choose another one"
        )
    _registered[kind][name] = component


def unregister(kind: Kind, name: str) -> None:
    """Remove a component that `register` offered. Raise KeyError."""
    del _registered[kind][name]


def names(kind: Kind) -> list[str]:
    """Return the available names, sorted. Raise PluginError if two packages offer the same one."""
    return sorted({*_registered[kind], *_BUILT_IN[kind], *_installed(kind)})


def load(kind: Kind, name: str, setting: str = "") -> Any:
    """Return the component with this name, or at `module:attribute`.

    Raise SettingsError for an unknown name or a place that cannot be imported; it names the `setting`.
    """
    where = f"{setting} = {name!r}" if setting else f"the name {name!r}"
    if ":" in name:
        return _at(name, where)
    if name in _registered[kind]:
        return _registered[kind][name]
    if name in _BUILT_IN[kind]:
        return _at(_BUILT_IN[kind][name], where)
    if (entry := _installed(kind).get(name)) is not None:
        return _at(entry.value, f"{where} of the package {_package(entry)}")
    raise SettingsError(_no_such(kind, name, where))


def unknown(kind: Kind, chosen: Iterable[str], setting: str) -> Iterator[str]:
    """Yield a sentence about each unknown name. Import nothing, and skip `module:attribute`."""
    for name in chosen:
        if ":" not in name and name not in names(kind):
            yield _no_such(kind, name, f"{setting} = {name!r}")


def _no_such(kind: Kind, name: str, where: str) -> str:
    if kind == "methods" and name in METHOD_SETS:
        return f'{where} stands for several in a flag; here, write "{",".join(METHOD_SETS[name])}"'
    known = names(kind)
    all_of_them = f"; known: {', '.join(known)}, or a place, module:attribute"
    return f"{where}: there is no such {_singular(kind)}{nearest(name, known, all_of_them)}"


def nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the end of a sentence about an unknown name: a suggestion, or `otherwise` if none is close."""
    close = difflib.get_close_matches(name.lower(), list(known), n=1)
    return f"; did you mean {close[0]}?" if close else otherwise


def installed(group: str) -> list[EntryPoint]:
    """Return the installed entry points of a group, without those that `PROMPT_COEVO_DISABLE_PLUGINS`
    switches off: some by their names, or all."""
    value = os.environ.get(DISABLE_PLUGINS_VARIABLE, "")
    if value.lower() in ("1", "true", "yes", "all"):
        return []
    disabled = {name.strip() for name in value.split(",")}
    return [entry for entry in _offered(group, tuple(sys.path)) if entry.name not in disabled]


def _installed(kind: Kind) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for entry in installed(f"{PROJECT}.{kind}"):
        other = found.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise PluginError(
                f"the packages {_package(other)} and {_package(entry)} both offer the "
                f"{_singular(kind)} {entry.name!r}; uninstall one of them"
            )
        if entry.name in _BUILT_IN[kind]:
            raise PluginError(
                f"the package {_package(entry)} offers the {_singular(kind)} {entry.name!r}, a name "
                f"that is built in; uninstall it, or set {DISABLE_PLUGINS_VARIABLE}={entry.name}"
            )
    return found


@cache
def _offered(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of the packages on `path`. Cached: a scan takes milliseconds."""
    return tuple(entry_points(group=group))


def is_built_in(kind: Kind, name: str) -> bool:
    """Check whether the component comes with this package."""
    return name in _BUILT_IN[kind]


def origin(kind: Kind, name: str) -> str:
    """Say in words where the component with a known name comes from."""
    if is_built_in(kind, name):
        return "it is built in"
    if name in _registered[kind]:
        return "it was registered before"
    return f"by the package {_package(_installed(kind)[name])}"


def _at(place: str, where: str) -> Any:
    module, _, attribute = place.partition(":")
    try:
        found = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except CoevoError:
        raise
    except (ImportError, AttributeError) as error:
        raise SettingsError(
            f"{where} cannot be imported from {place!r}: {error}; "
            "install it, or put its folder on PYTHONPATH"
        ) from error
    except Exception as error:  # a third-party module may raise anything
        raise SettingsError(
            f"{where} cannot be imported: {type(error).__name__}: {error}; fix the module"
        ) from error
    return found


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.value


def _singular(kind: Kind) -> str:
    return "likeness" if kind == "likenesses" else kind.removesuffix("s")
