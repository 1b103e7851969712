"""Store runs of a tier in a file of lines: appended one by one, and checked on reading.

The first line says what the file is. Machines and runs follow, each in a separate line, and a run that is
in the file is not repeated. Results of other settings are refused, unless only their form differs, which
a replayed run proved (`replayed.json`). So is a file whose last line is cut off.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final, TypeAlias

import prompt_coevo

SCHEMA: Final = 1
KEY: Final = ("world", "arm", "seed", "draw")
_PACKAGES: Final = ("prompt-coevo", "numpy", "torch", "transformers", "trl")
_BESIDE: Final = ("adapters", "retrieval")
"""Packages that the checkout keeps beside `prompt_coevo`."""
_CODE: Final = (":/prompt_coevo", ":/adapters", ":/benchmarks/worlds", ".")

Run: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str, int, int]


class ResultsError(Exception):
    """Raised for a file of results that must not be used as it is."""


class Store:
    """Hold the runs of one tier.

    `digests` has the hash of every arm's current settings; without it, any runs can be read and none added.
    `replayed` has, by arm and older hash, the hash that a replayed run proved to mean the same.
    """

    def __init__(
        self,
        file: Path,
        tier: str,
        digests: Mapping[str, str] | None = None,
        replayed: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._file, self._tier, self._digests = file, tier, digests
        self._replayed = replayed or {}
        self.runs: list[Run] = []
        self.keys: set[Key] = set()
        self._code = {"version": _installed("prompt-coevo") or "not installed", **_commit()}
        self._machines: dict[str, dict[str, Any]] = {}
        self._lock: Any = None
        if not self._is_new:
            self._read()

    @property
    def _is_new(self) -> bool:
        return not self._file.exists() or not self._file.stat().st_size

    def keep_to_oneself(self) -> None:
        """Lock the file while this process lives. Raises ResultsError if another process has it."""
        if not self._file.absolute().parent.is_dir():
            raise ResultsError(f"{self._file}: there is no folder {self._file.absolute().parent}")
        self._lock = self._file.open("a", encoding="utf-8")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ResultsError(
                f"{self._file}: another command is adding runs to it; wait for it, or give another file"
            ) from None

    def add(self, run: Mapping[str, Any]) -> Run:
        """Write a run down, with its hash of settings, version and machine, and the commit if known."""
        assert self._digests is not None, "opened for reading only"
        lines: list[Mapping[str, Any]] = []
        if self._is_new:
            lines.append({"schema": SCHEMA, "tier": self._tier})
        machine = machine_facts()
        name = digest(machine)
        if name not in self._machines:
            self._machines[name] = machine
            lines.append({"machine": name, **machine})
        stored = {
            **run,
            "settings": self._digests[run["arm"]],
            **self._code,
            "on": name,
        }
        with self._file.open("a", encoding="utf-8") as out:
            for line in (*lines, stored):
                out.write(json.dumps(line, separators=(",", ":")) + "\n")
            out.flush()
            os.fsync(out.fileno())
        self._keep(stored)
        return stored

    def machines(self) -> list[dict[str, Any]]:
        """Return the machines that the runs were made on."""
        used = {run["on"] for run in self.runs}
        return [facts for name, facts in self._machines.items() if name in used]

    # Inside

    def _read(self) -> None:
        try:
            text = self._file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ResultsError(f"{self._file} cannot be read: {error}") from None
        if not text.endswith("\n"):
            raise ResultsError(
                f"{self._file}: the last line is cut off; delete it, and run again what it held"
            )
        for number, line in enumerate(text.splitlines(), start=1):
            try:
                entry = json.loads(line)
            except json.JSONDecodeError as error:
                raise ResultsError(f"{self._file}, line {number}: no JSON: {error}") from None
            if not isinstance(entry, dict):
                raise ResultsError(f"{self._file}, line {number}: no JSON object")
            self._take(entry, number)

    def _take(self, entry: dict[str, Any], number: int) -> None:
        where = f"{self._file}, line {number}"
        if number == 1:
            for name, wanted in (("schema", SCHEMA), ("tier", self._tier)):
                if (found := entry.get(name)) != wanted:
                    raise ResultsError(f"{where}: {name} {found}, not {wanted}; give another file")
        elif "machine" in entry:
            self._machines[entry.pop("machine")] = entry
        else:
            self._check_run(entry, where)
            if self._digests is not None:
                self._check_settings(entry, where, self._digests)
            self._keep(entry)

    def _keep(self, run: Run) -> None:
        self.runs.append(run)
        self.keys.add(key_of(run))

    def _check_run(self, run: Run, where: str) -> None:
        missing = {*KEY, "settings", "version", "on", "words"} - run.keys()
        if missing:
            raise ResultsError(f"{where}: the run lacks {', '.join(sorted(missing))}")
        if key_of(run) in self.keys:
            raise ResultsError(f"{where}: the run {key_of(run)} is there twice; delete one")

    def _check_settings(self, run: Run, where: str, digests: Mapping[str, str]) -> None:
        wanted = digests.get(run["arm"])
        if wanted is None:
            raise ResultsError(f"{where}: there is no arm {run['arm']!r} any more; delete its runs")
        same = self._replayed.get(run["arm"], {})
        if same.get(run["settings"], run["settings"]) != wanted:
            raise ResultsError(
                f"{where}: {run['arm']} was run with other settings ({run['settings']}, now "
                f"{wanted}); give the same options as then, or another file"
            )


def key_of(run: Mapping[str, Any]) -> Key:
    world, arm, seed, draw = (run[name] for name in KEY)
    return world, arm, seed, draw


def digest(value: object) -> str:
    """Return twelve hexadecimal digits that change with the value."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def machine_facts() -> dict[str, Any]:
    """Return processor, cores, system and versions that a run's numbers depend on."""
    return {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": sys.version.split()[0],
        "packages": {name: found for name in _PACKAGES if (found := _installed(name))},
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    flags = next((line for line in lines if line.startswith("flags")), "")
    return f"{names[0] if names else platform.processor()}{', AVX-512' * ('avx512f' in flags)}"


def _commit() -> dict[str, str]:
    """Return the commit of the checkout, marked if other code runs; nothing without a checkout."""
    try:
        changed = _git("status", "--porcelain", "--", *_CODE) or not _is_the_checkouts()
        return {"commit": _git("rev-parse", "--short=12", "HEAD") + "-changed" * bool(changed)}
    except (OSError, subprocess.CalledProcessError):
        return {}


def _is_the_checkouts() -> bool:
    """Tell whether `prompt_coevo`, which may be installed, has the same code as the checkout."""
    root, running = Path(__file__).parents[2], Path(prompt_coevo.__file__).parent
    for file in running.rglob("*.py"):
        inside = file.relative_to(running)
        own = root / inside if inside.parts[0] in _BESIDE else root / "prompt_coevo" / inside
        if not own.is_file() or own.read_bytes() != file.read_bytes():
            return False
    return True


def _git(*arguments: str) -> str:
    return subprocess.run(
        ("git", *arguments), cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    ).stdout.strip()


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
