"""Output of the commands: lines, and files in a new folder."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

import typer

from prompt_coevo import files
from prompt_coevo.errors import CoevoError, SettingsError

RUN: Final = typer.Argument(
    metavar="RUN", help="A run's output folder, or its subfolder coevo.", show_default=False
)


def show(lines: Iterable[str]) -> None:
    """Print lines, styled if the output is a terminal."""
    for line in lines:
        typer.echo(line, file=sys.stdout)  # else it writes UTF-8 to an ASCII output


def read_lines(path: Path, flag: str) -> list[str]:
    """Read the lines of a UTF-8 file. Raises SettingsError, which names the option."""
    try:
        return path.read_text("utf-8-sig").split("\n")  # not splitlines: a line may hold U+2028
    except UnicodeDecodeError:
        raise SettingsError(f"{flag} {path} is not UTF-8; convert it") from None
    except OSError as error:
        raise SettingsError(f"{flag} {path} cannot be read: {error.strerror}") from None


def write_file(path: Path, text: str) -> None:
    """Write a file completely or not at all. Raises CoevoError."""
    try:
        files.replace(path, text.encode("utf-8", "replace"), sync=False)
    except OSError as error:
        raise CoevoError(
            f"{path} cannot be written: {error.strerror}; give another file with --out"
        ) from None


def unused_folder(out: Path | None, name: str) -> Path:
    """Return a folder for output that is empty or does not exist yet; by default runs/ plus this name and
    the time. Raises SettingsError."""
    folder = out or Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    try:
        occupied = folder.exists() and any(folder.iterdir())
    except OSError as error:
        raise _unusable(folder, error) from None
    if occupied:
        raise SettingsError(f"the folder {folder} is not empty; give --out a new one")
    return folder


def new_folder(out: Path | None, name: str) -> Path:
    """Create the folder that `unused_folder` finds, and return it. Raises SettingsError."""
    folder = unused_folder(out, name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error) from None
    return folder


def _unusable(folder: Path, error: OSError) -> SettingsError:
    return SettingsError(
        f"the folder {folder} cannot be used: {error.strerror}; give --out another one"
    )
