"""The identity of a run: recorded in its files, and compared when a checkpoint is resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from prompt_coevo import registry
from prompt_coevo.errors import SettingsError
from prompt_coevo.lines import JSON
from prompt_coevo.redact import known_keys, names_a_secret, redact_known
from prompt_coevo.settings import Settings
from prompt_coevo.settings.method import methods_of

_MEANING: Final = (
    "seed",
    "question_id_column",
    "context_distillation",
    "distill_forward",
    "placement",
    "success",
)


@dataclass(frozen=True)
class Dataset:
    """The number of questions and a hash of their contents, independent of their order."""

    questions: int
    fingerprint: str

    @classmethod
    def of(cls, fingerprints: Sequence[str]) -> Dataset:
        """Build from one fingerprint per question."""
        digest = hashlib.sha256("\n".join(sorted(fingerprints)).encode())
        return cls(len(fingerprints), digest.hexdigest()[:32])


def digest_of(meaning: Mapping[str, JSON]) -> str:
    """Return the hash of a run's `meaning`, which comes from an identity or a saved state."""
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class RunIdentity:
    """The identity of a run. `meaning` determines what the run computes: settings by their dotted names,
    and the dataset. `noted` is for the record: other settings, versions, the trainer."""

    meaning: Mapping[str, JSON]
    noted: Mapping[str, JSON]

    @classmethod
    def of(cls, settings: Settings, dataset: Dataset | None, host: str) -> RunIdentity:
        """Build the identity of a run with these settings. `host` names the trainer and its version.

        Raise SettingsError if `settings` is a mapping: this is the first place that reads them.
        """
        if not isinstance(settings, Settings):
            raise SettingsError(
                f"the settings are a {type(settings).__name__}; make them by Settings(**values), which "
                "also reads the environment and settings files"
            )
        values = settings.resolved(fallback=_named)
        places = {settings.place(one): one.section for one in methods_of(settings).values()}
        decisive = {"algorithms", "plugins", *_MEANING, *places} & values.keys()
        meaning = dict(_flat({name: values.pop(name) for name in decisive}))
        costs = [f"{place}.{one}" for place, kind in places.items() for one in kind.may_change]
        values |= {name: meaning.pop(name) for name in costs if name in meaning}
        if dataset is not None:
            meaning |= dict(_flat({"dataset": asdict(dataset)}))
        idle = {one for one in registry.names("methods") if registry.is_built_in("methods", one)}
        noted = {name: values[name] for name in values.keys() - idle}
        versions = {name: _version(name) for name in ("prompt-coevo", "torch", "transformers")}
        noted = dict(_flat({**noted, "host": host, "versions": versions}))
        return cls(
            _safe(meaning, _kept_apart), _safe(noted, partial(redact_known, known=known_keys()))
        )

    def on(self, dataset: Dataset) -> RunIdentity:
        """Return the identity of the same run on another dataset."""
        meaning = {**self.meaning, **dict(_flat({"dataset": asdict(dataset)}))}
        return replace(self, meaning=dict(sorted(meaning.items())))

    @property
    def digest(self) -> str:
        """The hash of `meaning`: equal for runs that compute the same."""
        return digest_of(self.meaning)

    def differences(self, saved: Mapping[str, JSON]) -> list[str]:
        """Describe how the settings and the dataset of a saved `meaning` differ from those of this run."""
        return _differences(saved, self.meaning)

    def changes(self, saved: Mapping[str, JSON]) -> list[str]:
        """Describe how the settings and versions of a saved `noted` differ from those of this run."""
        return _differences(saved, self.noted)


def _differences(saved: Mapping[str, JSON], now: Mapping[str, JSON]) -> list[str]:
    own = json.loads(json.dumps(now))
    return [
        f"{name} was {saved.get(name)!r} and is {own.get(name)!r}"
        for name in sorted(own.keys() | saved.keys())
        if own.get(name) != saved.get(name)
    ]


def _flat(values: Mapping[str, JSON], prefix: str = "") -> Iterator[tuple[str, JSON]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + str(name), value


def _safe(values: Mapping[str, JSON], write: Callable[[str], str]) -> dict[str, JSON]:
    """Sort the values by name and remove secrets: every checkpoint contains the identity."""
    return {name: _written(name, value, write) for name, value in sorted(values.items())}


def _written(name: str, value: JSON, write: Callable[[str], str]) -> JSON:
    if names_a_secret(name.rpartition(".")[2]) and value and not isinstance(value, bool):
        return "[api key]"
    if isinstance(value, str):
        return write(value)
    if isinstance(value, Mapping):
        return {one: _written(str(one), inner, write) for one, inner in value.items()}
    return [_written("", one, write) for one in value] if isinstance(value, list | tuple) else value


def _kept_apart(text: str) -> str:
    """Redact a text by its own content alone: environment variables must not change a run's meaning.

    Append a hash, so that different texts stay different.
    """
    shown = redact_known(text, ())
    if shown == text:
        return text
    return f"{shown} [{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}]"


def _named(value: object) -> str:
    """Return the name of an object that is no JSON value, such as a function: stable across processes."""
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    return f"{getattr(value, '__module__', None) or type(value).__module__}.{name}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
