"""The engine's state in the host's checkpoint, as a file of its own."""

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
    """Write a file of a checkpoint inside, in a folder that may be new. Raises StateError if that fails."""
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

    Call it before the host writes the file by which it recognises a whole checkpoint. Raises StateError
    if it cannot be written.
    """
    path, state = folder / STATE_FILE, engine.state_dict()
    with writing("the state", path):
        write_json(path, state)


def load_state(engine: Coevolution, folder: Path) -> bool:
    """Go on from a checkpoint's folder; without a state in it, say so and return False.

    Raises StateError for a state that is damaged or does not fit.
    """
    path = folder / STATE_FILE
    if not path.exists():
        starts_anew(f"{folder} has no {STATE_FILE}")
        return False
    # The run that wrote it may have had another output directory: the one that the checkpoint is in.
    ledgers = [parent / "coevo" / CALLS for parent in folder.absolute().parents[:2]]
    engine.load_state_dict(read_state(path), where=f"the state file {path}", ledgers=ledgers)
    return True


def starts_anew(reason: str) -> None:
    """Tell the user that the host resumes and the engine cannot."""
    logger.warning("%s: co-evolution starts anew", reason)
