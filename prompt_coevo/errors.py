"""The errors that users see. Each message says in one sentence what is wrong, where, and what to do."""

from __future__ import annotations

from prompt_coevo.redact import redact


class CoevoError(Exception):
    """Base of every error that prompt_coevo raises on purpose."""


class SettingsError(CoevoError, ValueError):
    """Settings are unknown, out of range, or contradict each other.

    `problems` holds one sentence for each mistake; API keys typed in the wrong place are redacted.
    """

    def __init__(self, *problems: str) -> None:
        problems = tuple(map(redact, problems))
        text = "; ".join(problems)
        if len(problems) > 1:
            listed = (f"({number}) {one}" for number, one in enumerate(problems, 1))
            text = f"{len(problems)} mistakes in the settings: {'; '.join(listed)}"
        super().__init__(text)
        self.problems = problems


class DatasetError(CoevoError, ValueError):
    """The trainer's dataset cannot be used as it is."""


class StateError(CoevoError, ValueError):
    """A saved state is damaged or was written by an incompatible version."""


class HostError(CoevoError, RuntimeError):
    """The trainer is used in a way that the adapter cannot support."""


class OutOfStep(HostError):
    """A rank died, hangs, or failed while others wait for it, so the ranks cannot be synchronised again."""


class PreflightError(CoevoError, RuntimeError):
    """The preflight found a problem that would make the run useless."""


class EarlySignError(CoevoError, RuntimeError):
    """The first rounds show that nothing can be learned, and `early_signs = "stop"` ends such a run."""


class PluginError(CoevoError, RuntimeError):
    """A plugin or a named component cannot be found or does not fit its hooks."""
