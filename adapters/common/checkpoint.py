"""The engine's state as a separate file in the trainer's checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.engine.state import read_state, write_json
from prompt_coevo.errors import StateError
from prompt_coevo.markers import PROJECT
from prompt_coevo.reflection.ledger import CALLS

logger = logging.getLogger(PROJECT)

STATE_FILE: Final = "coevo_state.json"


@contextmanager
def writing(what: str, path: Path) -> Iterator[None]:
    """Create the folder for a checkpoint's file, to be written inside. Raises StateError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise StateError(
            f"{what} cannot be written to {path}: {error.strerror}; a checkpoint without that could not "
            "be resumed, so make room there, or give the trainer another output directory"
        ) from None


def save_state(engine: Coevolution, folder: Path) -> None:
    """Write the state into a checkpoint's folder.

    Call it before the trainer writes the file that marks a checkpoint as complete. Raises StateError if it
    cannot be written.
    """
    path, state = folder / STATE_FILE, engine.state_dict()
    with writing("the state", path):
        write_json(path, state)


def load_state(engine: Coevolution, folder: Path) -> bool:
    """Load the state from a checkpoint's folder. If there is none, log a warning and return False.

    Raises StateError for a state that is damaged or does not fit.
    """
    path = folder / STATE_FILE
    if not path.exists():
        starts_anew(f"{folder} has no {STATE_FILE}")
        return False
    # The checkpoint may lie in the output directory of another run, whose ledger then counts too.
    ledgers = [parent / "coevo" / CALLS for parent in folder.absolute().parents[:2]]
    engine.load_state_dict(read_state(path), where=f"the state file {path}", ledgers=ledgers)
    return True


def starts_anew(reason: str) -> None:
    """Warn the user that the trainer resumes and the engine cannot."""
    logger.warning("%s: co-evolution starts anew", reason)
