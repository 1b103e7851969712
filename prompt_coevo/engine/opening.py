"""What a run says and counts of the files that it finds: in its folder, and beside its checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from prompt_coevo.engine.run_context import RunContext
from prompt_coevo.errors import StateError
from prompt_coevo.markers import PROJECT
from prompt_coevo.reflection.ledger import CALLS, Ledger

logger = logging.getLogger(PROJECT)

_BUDGETS: Final = ("max_calls", "max_total_tokens", "max_usd")


def say_what_was_lost(context: RunContext) -> None:
    """Warn of calls whose replies were lost, and of damaged lines of the ledger."""
    ledger = context.ledger
    if not (ledger.lost or ledger.damaged):
        return
    context.note("ledger_opened", lost=ledger.lost, damaged=ledger.damaged)
    logger.warning(
        "%d calls to the reflection model were under way when this run ended last, and count as "
        "the most that they can have cost; %d lines of the ledger of calls are damaged",
        ledger.lost,
        ledger.damaged,
    )


def say_what_was_there(context: RunContext) -> None:
    """Warn of a folder that another experiment has written into: its lines stay in the files."""
    if not context.ledger.after_another_run:
        return
    context.note("folder_of_another_run")
    logger.warning(
        "%s has the files of an earlier run with another dataset, method or seed, and this one is "
        "written behind it; give the trainer another output directory to keep them apart",
        context.folder,
    )


def spent_before(
    context: RunContext, known: Mapping[str, float], run: str, ledgers: Sequence[Path], where: str
) -> Mapping[str, float]:
    """Count what a run had spent that resumes from a checkpoint, by the ledger that it wrote elsewhere.

    `known` is what the checkpoint knows; calls that were made after it, before the run was killed, are in
    its ledger alone. `ledgers` are where that may be. Raises StateError where it is not found, or ends
    before the checkpoint, and there is a budget; with `resume = "force"` that is a warning.
    """
    if context.ledger.was_whole:
        return known  # the run's own file is here
    own = context.folder and context.folder / CALLS
    for path in ledgers:
        is_another = path.is_file() and not (own and own.exists() and path.samefile(own))
        spent = Ledger.spent_in(path, run) if is_another else None
        if spent is not None:
            return {name: max(value, known.get(name, 0.0)) for name, value in spent.items()}
    settings = context.settings
    budgets = [name for name in _BUDGETS if getattr(settings.reflection, name) is not None]
    if not (context.folder and budgets):
        return known
    told = (
        f"the ledger of the run that wrote {where} ({CALLS}) is neither whole in {context.folder} nor "
        "beside the checkpoint, so what it spent after the checkpoint is not counted, and "
        f"reflection.{', reflection.'.join(budgets)} may be exceeded by that; copy the file to "
        f"{context.folder} to have it counted"
    )
    if settings.resume != "force":
        raise StateError(f'{told}, or set resume = "force" to go on without it')
    logger.warning("%s", told)
    return known
