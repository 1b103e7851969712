"""The errors that users see. Each message is one sentence: what is wrong, where, what to do."""

from __future__ import annotations

from prompt_coevo.redact import redact


class CoevoError(Exception):
    """Base of every error that prompt_coevo raises on purpose."""


class SettingsError(CoevoError, ValueError):
    """Settings are unknown, out of range, or contradict each other: `problems`, a sentence each, without
    what has the shape of a provider's key and was typed in a wrong place."""

    def __init__(self, *problems: str) -> None:
        problems = tuple(map(redact, problems))
        text = "; ".join(problems)
        if len(problems) > 1:
            listed = (f"({number}) {one}" for number, one in enumerate(problems, 1))
            text = f"{len(problems)} mistakes in the settings: {'; '.join(listed)}"
        super().__init__(text)
        self.problems = problems


class DatasetError(CoevoError, ValueError):
    """The host's dataset cannot be used as it is."""


class StateError(CoevoError, ValueError):
    """A saved state is damaged or was written by an incompatible version."""


class HostError(CoevoError, RuntimeError):
    """The host trainer is used in a way that the adapter cannot support."""


class OutOfStep(HostError):
    """A rank died, hangs, or failed where others wait for it: no further word reaches them all."""


class PreflightError(CoevoError, RuntimeError):
    """What was looked at before training says that the run would come to nothing."""


class EarlySignError(CoevoError, RuntimeError):
    """The first rounds have shown that nothing can be learned, and the settings end such a run."""


class PluginError(CoevoError, RuntimeError):
    """A plugin or a named component cannot be found or does not fit its hooks."""
