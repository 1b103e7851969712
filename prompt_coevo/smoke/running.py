"""Run the variants of an adapter one after the other, each in a process with a time limit."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from uuid import uuid4

from prompt_coevo.extras import is_installed
from prompt_coevo.smoke import world
from prompt_coevo.smoke.checks import Check, checks, no_trace, resumed, speed
from prompt_coevo.smoke.parts import Adapter, Command, Evidence, Variant
from prompt_coevo.visible import in_a_line

if TYPE_CHECKING:
    import torch

State: TypeAlias = Literal["works", "failed", "not run"]
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
_KILLED: Final = 256
"""No process has this exit status: one that was killed on purpose."""
_PATIENCE_S: Final = 20.0
_POLL_S: Final = 0.05
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
    adapter: Adapter,
    variants: Sequence[Variant],
    folder: Path,
    limit_s: float,
    gpus: Sequence[str],
) -> Iterator[Outcome]:
    """Run the variants and yield each outcome as it comes.

    `gpus` are named as in `CUDA_VISIBLE_DEVICES`; without any the variants run on the CPU. After a failed
    variant the next one still runs.
    """
    for variant in variants:
        if lacking := missing(adapter, variant, len(gpus)):
            yield Outcome(variant, "not run", lacking)
            continue
        place = (folder / variant.name).absolute()
        place.mkdir(parents=True)
        began = time.monotonic()
        state, said = _run(Runs(adapter, limit_s, gpus[: variant.gpus]), variant, place)
        yield Outcome(variant, state, said, time.monotonic() - began)


def missing(adapter: Adapter, variant: Variant, gpus: int) -> str | None:
    """Return why a variant cannot run here and what to install, or None if it can run. With 0 GPUs it would
    run on the CPU."""
    if gpus < variant.gpus and (gpus or not variant.on_cpu):
        return "needs a GPU" if variant.gpus == 1 else f"needs {variant.gpus} GPUs"
    lacking = [one for one in (*adapter.packages, *variant.packages) if not is_installed(one)]
    if lacking:
        own = f"prompt-coevo[{adapter.name}]"
        wanted = dict.fromkeys(adapter.install.get(one, own) for one in lacking)
        given = " ".join(f"'{one}'" for one in wanted)
        return f"{', '.join(lacking)} not installed; run: pip install {given}"
    return None


def _run(runs: Runs, variant: Variant, folder: Path) -> tuple[State, str]:
    try:
        found: list[Check] = list(getattr(runs, variant.course)(variant, folder))
    except _Failed as error:
        return "failed", str(error)
    except (OSError, KeyError, ValueError, TypeError) as error:
        told = in_a_line(f"{type(error).__name__}: {error}", _SHOWN)
        return "failed", f"it ended well, but what it left cannot be read ({told}); see {folder}"
    broken = [check.said for check in found if not check.holds]
    if broken:
        return "failed", f"not as it should be: {'; '.join(broken)}; see {folder}"
    return "works", "; ".join(check.said for check in found)


class _Failed(Exception):
    """Why a run did not end as it should."""


@dataclass(frozen=True)
class Runs:
    """The runs of a variant and the checks of what they leave, one method per course."""

    adapter: Adapter
    limit_s: float
    gpus: Sequence[str]

    def once(self, variant: Variant, folder: Path) -> Iterator[Check]:
        yield from checks(variant, self._read(variant, folder))

    def resume(self, variant: Variant, folder: Path) -> Iterator[Check]:
        self._start(variant, folder, self.adapter.saved)
        found = self._read(variant, folder)
        events = [file.read_text("utf-8") for file in folder.rglob("events.jsonl")]
        yield resumed(found, sum(text.count('"event": "resumed"') for text in events))
        yield from checks(variant, found)

    def ghost(self, variant: Variant, folder: Path) -> Iterator[Check]:
        """Run the bare trainer twice before the one with templates, to see how far two bare runs differ."""
        bare = replace(variant, coevo={})
        for name, one in (("bare", bare), ("again", bare), ("templates", variant)):
            found = self._read(one, folder / name)
        yield from checks(variant, found)
        places = [folder / name / self.adapter.weights for name in ("bare", "templates", "again")]
        bare_end, *others = map(_weights, [*places, world.policy_path() / "model.safetensors"])
        yield no_trace(*(_distance(one, bare_end) for one in others))

    def speed(self, variant: Variant, folder: Path) -> Iterator[Check]:
        bare = self._read(replace(variant, coevo={}), folder / "without")
        found = self._read(variant, folder / "with")
        yield speed(bare, found)
        yield from checks(variant, found)

    def _read(self, variant: Variant, folder: Path) -> Evidence:
        self._start(variant, folder)
        return self.adapter.read(variant, folder)

    def _start(self, variant: Variant, folder: Path, until: str = "") -> None:
        """Run to the end, or kill it as soon as a file of this pattern is there. Raises _Failed."""
        log = folder / LOG
        folder.mkdir(exist_ok=True)
        try:
            command = self.adapter.prepare(variant, folder, not self.gpus)
            status = _process(command, folder, self.limit_s, self.gpus, until)
        except OSError as error:
            raise _Failed(f"it could not be started: {in_a_line(error, _SHOWN)}") from None
        if status is None:
            raise _Failed(f"it was not over after {self.limit_s:g} s and was ended; see {log}")
        if status not in (0, _KILLED):
            raise _Failed(f"exit status {status}: {_last_words(log)}; see {log}")
        if until and status != _KILLED:
            raise _Failed(f"it was over before it could be killed; see {log}")


def _weights(file: Path) -> Mapping[str, torch.Tensor]:
    from safetensors.torch import load_file

    found: Mapping[str, torch.Tensor] = load_file(file)
    return found


def _distance(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> float:
    """Return the root of the sum of the squared differences."""
    squares = ((one[name].double() - other[name].double()).square().sum() for name in other)
    return math.sqrt(sum(map(float, squares)))


def _process(
    command: Command, folder: Path, limit_s: float, gpus: Sequence[str], until: str
) -> int | None:
    """Return the exit status, `_KILLED` if a file came at which to kill it, or None after a timeout.

    Nothing that was started keeps running.
    """
    arguments, own = command
    marker, deadline = uuid4().hex, time.monotonic() + limit_s
    with (folder / LOG).open("ab") as log:
        process = subprocess.Popen(
            arguments,
            cwd=folder,
            env={**_environment(gpus), **own, "COEVO_SMOKE_RUN": marker},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while (status := process.poll()) is None and time.monotonic() < deadline:
            if until and any(folder.glob(until)):
                time.sleep(_POLL_S)  # then the file is whole, too
                _signal(process, signal.SIGKILL)
                return _KILLED
            time.sleep(_POLL_S)
        return status
    finally:
        end(process)
        _end_all(marker)


def _end_all(marker: str) -> None:
    """End what has left the process's group, as Ray's do. Linux tells by the environment which they are."""
    deadline = time.monotonic() + _PATIENCE_S
    while (left := list(_with(marker))) and time.monotonic() < deadline:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def _with(marker: str) -> Iterator[int]:
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # somebody else's, or gone
            if marker.encode() in file.read_bytes():
                yield int(file.parent.name)


def _environment(gpus: Sequence[str]) -> Mapping[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(_BENDING)}
    seen = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}
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
