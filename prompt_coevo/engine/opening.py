"""What is said of the files that a run finds in its folder."""

from __future__ import annotations

import logging

from prompt_coevo.engine.desk import Desk
from prompt_coevo.markers import PROJECT

logger = logging.getLogger(PROJECT)


def say_what_was_lost(desk: Desk) -> None:
    """Warn of calls whose replies were lost, and of damaged lines of the ledger."""
    ledger = desk.ledger
    if not (ledger.lost or ledger.damaged):
        return
    desk.note("ledger_opened", lost=ledger.lost, damaged=ledger.damaged)
    logger.warning(
        "%d calls to the reflection model were under way when this run ended last, and count as "
        "the most that they can have cost; %d lines of the ledger of calls are damaged",
        ledger.lost,
        ledger.damaged,
    )


def say_what_was_there(desk: Desk) -> None:
    """Warn of a folder that another experiment has written into: its lines stay in the files."""
    if not desk.ledger.after_another_run:
        return
    desk.note("folder_of_another_run")
    logger.warning(
        "%s has the files of an earlier run with another dataset, method or seed, and this one is "
        "written behind it; give the trainer another output directory to keep them apart",
        desk.folder,
    )
