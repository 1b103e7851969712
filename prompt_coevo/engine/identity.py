"""What a run is: so that its files say what ran, and a checkpoint goes on as what it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from prompt_coevo import registry
from prompt_coevo.errors import SettingsError
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
    """How many questions there are, and a hash of what they are, in whatever order."""

    questions: int
    fingerprint: str

    @classmethod
    def of(cls, fingerprints: Sequence[str]) -> Dataset:
        """Of one fingerprint for each question."""
        digest = hashlib.sha256("\n".join(sorted(fingerprints)).encode())
        return cls(len(fingerprints), digest.hexdigest()[:32])


def digest_of(meaning: Mapping[str, Any]) -> str:
    """Names a run by its meaning, as an identity or a state has it."""
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class RunIdentity:
    """What decides what a run does (`meaning`: settings by their dotted names, and the dataset), and
    what else there is to know (`noted`: other settings, versions, the host)."""

    meaning: Mapping[str, Any]
    noted: Mapping[str, Any]

    @classmethod
    def of(cls, settings: Settings, dataset: Dataset | None, host: str) -> RunIdentity:
        """Of a run with these settings. `host` names the trainer and its version.

        Raises SettingsError for a mapping in place of settings: this is where they are read first.
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
        """The same run on another dataset."""
        meaning = {**self.meaning, **dict(_flat({"dataset": asdict(dataset)}))}
        return replace(self, meaning=dict(sorted(meaning.items())))

    @property
    def digest(self) -> str:
        """The same for runs that do the same."""
        return digest_of(self.meaning)

    def differences(self, saved: Mapping[str, Any]) -> list[str]:
        """Where a saved `meaning` is another one, in words."""
        return _differences(saved, self.meaning)

    def changes(self, saved: Mapping[str, Any]) -> list[str]:
        """The same of what a saved identity `noted`."""
        return _differences(saved, self.noted)


def _differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    own = json.loads(json.dumps(now))
    return [
        f"{name} was {saved.get(name)!r} and is {own.get(name)!r}"
        for name in sorted(own.keys() | saved.keys())
        if own.get(name) != saved.get(name)
    ]


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + str(name), value


def _safe(values: Mapping[str, Any], write: Callable[[str], str]) -> dict[str, Any]:
    """Sort the values by their names, and leave out secrets: an identity is in every checkpoint."""
    return {name: _written(name, value, write) for name, value in sorted(values.items())}


def _written(name: str, value: Any, write: Callable[[str], str]) -> Any:
    if names_a_secret(name.rpartition(".")[2]) and value and not isinstance(value, bool):
        return "[api key]"
    if isinstance(value, str):
        return write(value)
    if isinstance(value, Mapping):
        return {one: _written(str(one), inner, write) for one, inner in value.items()}
    return [_written("", one, write) for one in value] if isinstance(value, list | tuple) else value


def _kept_apart(text: str) -> str:
    """Redact by what the text itself shows, for a variable that comes or goes must not change what a run
    means; texts that differ stay different."""
    shown = redact_known(text, ())
    if shown == text:
        return text
    return f"{shown} [{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}]"


def _named(value: Any) -> str:
    """For what is no JSON value, such as a function: its name, which is the same in another process."""
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    return f"{getattr(value, '__module__', None) or type(value).__module__}.{name}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
