"""Run the variants of an adapter one after the other, each in a process with a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from prompt_coevo.extras import is_installed
from prompt_coevo.smoke.checks import checks
from prompt_coevo.smoke.parts import Adapter, Command, Variant
from prompt_coevo.visible import in_a_line

State: TypeAlias = Literal["works", "failed", "not there"]
LOG: Final = "log.txt"
_OFFLINE: Final = {
    "CI": "1",
    "DO_NOT_TRACK": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "RAY_ADDRESS": "local",  # a Ray already running on the machine is somebody else's
    "RAY_USAGE_STATS_ENABLED": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_OFFLINE": "1",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "WANDB_MODE": "disabled",
}
_BENDING: Final = "PROMPT_COEVO_"
"""Prefix of the variables that hold the user's own settings, which would change the run."""
_PATIENCE_S: Final = 20.0
_SHOWN: Final = 200
_TAIL: Final = 65536


@dataclass(frozen=True)
class Outcome:
    """A row of the table."""

    variant: Variant
    state: State
    said: str
    seconds: float = 0.0


def run_all(
    adapter: Adapter, variants: Sequence[Variant], folder: Path, limit_s: float, gpu: str | None
) -> Iterator[Outcome]:
    """Run the variants and yield each outcome as it comes.

    `gpu` is named as in `CUDA_VISIBLE_DEVICES`; without one the variants run on the CPU. After a failed
    variant the next one still runs.
    """
    for variant in variants:
        if lacking := missing(adapter, variant, gpu):
            yield Outcome(variant, "not there", lacking)
            continue
        place = (folder / variant.name).absolute()
        place.mkdir(parents=True)
        began = time.monotonic()
        state, said = _run(adapter, variant, place, limit_s, gpu)
        yield Outcome(variant, state, said, time.monotonic() - began)


def missing(adapter: Adapter, variant: Variant, gpu: str | None) -> str | None:
    """Return why a variant cannot run here and what to install, or None if it can run."""
    if gpu is None and not variant.on_cpu:
        return "needs a GPU"
    lacking = [one for one in (*adapter.packages, *variant.packages) if not is_installed(one)]
    if lacking:
        own = f"prompt-coevo[{adapter.name}]"
        wanted = dict.fromkeys(adapter.install.get(one, own) for one in lacking)
        given = " ".join(f"'{one}'" for one in wanted)
        return f"{', '.join(lacking)} not installed; run: pip install {given}"
    return None


def _run(
    adapter: Adapter, variant: Variant, folder: Path, limit_s: float, gpu: str | None
) -> tuple[State, str]:
    log = folder / LOG
    try:
        command = adapter.prepare(variant, folder, gpu is None)
        status = _process(command, folder, limit_s, gpu)
    except OSError as error:
        return "failed", f"it could not be started: {in_a_line(error, _SHOWN)}"
    if status is None:
        return "failed", f"it was not over after {limit_s:g} s and was ended; see {log}"
    if status:
        return "failed", f"exit status {status}: {_last_words(log)}; see {log}"
    try:
        found = checks(variant, adapter.read(variant, folder))
    except (OSError, KeyError, ValueError, TypeError) as error:
        told = in_a_line(f"{type(error).__name__}: {error}", _SHOWN)
        return "failed", f"it ended well, but what it left cannot be read ({told}); see {log}"
    broken = [check.said for check in found if not check.holds]
    if broken:
        return "failed", f"not as it should be: {'; '.join(broken)}; see {log}"
    return "works", "; ".join(check.said for check in found)


def _process(command: Command, folder: Path, limit_s: float, gpu: str | None) -> int | None:
    """Return the exit status, or None after a timeout. Nothing that was started keeps running."""
    arguments, own = command
    with (folder / LOG).open("wb") as log:
        process = subprocess.Popen(
            arguments,
            cwd=folder,
            env={**_environment(gpu), **own},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        end(process)


def _environment(gpu: str | None) -> Mapping[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(_BENDING)}
    seen = {"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}
    return {**own, **_OFFLINE, **seen}


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its group, which it leads.

    First politely: a Ray driver then ends its own Ray, whose processes are in other groups.
    """
    _signal(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_PATIENCE_S)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _last_words(log: Path) -> str:
    """Return the last line that names an error, or else the last line."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").split("\n")]
    lines = [line for line in lines if line]
    told = [line for line in lines if "Error" in line or line.startswith("error:")]
    return in_a_line((told or lines or ["nothing was written"])[-1], _SHOWN)
