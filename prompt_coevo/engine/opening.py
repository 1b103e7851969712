"""Handle the files of earlier attempts and runs at the start: warn of losses, count earlier spending."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from prompt_coevo import hookspecs
from prompt_coevo.engine import run_lock
from prompt_coevo.engine.metrics import Metrics
from prompt_coevo.engine.run_context import RunContext
from prompt_coevo.engine.summary import say
from prompt_coevo.errors import StateError
from prompt_coevo.markers import PROJECT
from prompt_coevo.reflection.ledger import CALLS, Ledger
from prompt_coevo.reflection.moved_ledger import can_become, current, is_same, move, start_of
from prompt_coevo.visible import in_a_line

logger = logging.getLogger(PROJECT)

_BUDGETS: Final = ("max_calls", "max_total_tokens", "max_usd")
_TAKEN_UP: Final = {
    "coevo/templates_in_use": "templates in use",
    "coevo/cover_templates": "templates in use",
    "coevo/hard_samples": "hard questions",
    "coevo/hints_hard": "hard questions",
    "coevo/reflection_calls": "calls to the reflection model so far",
}


def say_what_was_lost(context: RunContext) -> None:
    """Warn of calls whose replies were lost, and of damaged lines in the ledger."""
    ledger = context.ledger
    if not (ledger.lost or ledger.damaged):
        return
    context.note("ledger_opened", lost=ledger.lost, damaged=ledger.damaged)
    logger.warning(
        "%d calls to the reflection model were under way when this run last ended, and count with "
        "their highest possible cost; %d lines of the ledger of calls are damaged",
        ledger.lost,
        ledger.damaged,
    )


def say_what_was_there(context: RunContext) -> None:
    """Warn if the folder contains files of a different run. They are kept, and appended to."""
    if not context.ledger.after_another_run:
        return
    context.note("folder_of_another_run")
    logger.warning(
        "%s has the files of an earlier run with another dataset, method or seed, and this run is "
        "appended to them; give the trainer another output directory to keep them apart",
        context.folder,
    )


def say_what_was_resumed(context: RunContext, metrics: Metrics) -> None:
    """Say once, after training began, which checkpoint was loaded and what the methods took up from it."""
    where, context.resumed_from = context.resumed_from, None
    if where is None:
        return
    known = metrics.collect()
    told = [f"{known[name]:g} {what}" for name, what in _TAKEN_UP.items() if name in known]
    line = f"resumed from {where} at step {context.policy_version.step}"
    say([in_a_line(f"{line}: {', '.join(told)}" if told else line)])


def states_to_load(context: RunContext, saved: Mapping[str, str], where: str) -> dict[str, str]:
    """Return the states in a checkpoint that this run's plugins load.

    Raise StateError for the state of a plugin that is not active, and for an active method without one;
    with `resume = "force"` warn, drop the former, and let the latter start without a state.
    """
    plugins, methods = context.plugins, context.methods.values()
    # "journal" is a sink, which may be off.
    idle = [name for name in saved if name not in plugins.names and name != "journal"]
    stateful = [one.name for one in methods if plugins.implements(one.name, hookspecs.coevo_state)]
    new = [name for name in stateful if name not in saved]
    forced = context.settings.resume == "force"
    if idle and not forced:
        raise StateError(
            f"{where} holds the state of {_named(idle)}, which is not active in this run; restore the "
            'earlier settings, start without this checkpoint, or set resume = "force" to drop that state'
        )
    if new and not forced:
        raise StateError(
            f"{where} holds no state of {_named(new)}, which would start anew in the middle of the run; "
            "resume from another checkpoint, start without this one, or set resume = "
            '"force" to start it anew'
        )
    if idle or new:
        told = [f"the state of {_named(idle)}, not active in this run, is dropped"] if idle else []
        told += [f"{_named(new)} starts without a state"] if new else []
        logger.warning("resumed from %s: %s", where, "; ".join(told))
        context.note("states_dropped", dropped=idle, without_state=new)
    return {name: text for name, text in saved.items() if name not in idle}


def _named(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))


def take_ledger_along(context: RunContext, run: str, ledgers: Sequence[Path], where: str) -> None:
    """Continue a resumed run's ledger in this folder, if its calls were counted in another one.

    `ledgers` are the places where it may be. Raise StateError if a budget is set and calls of the run may
    be missing, or its process is still alive; with `resume = "force"` warn.
    """
    own = context.folder and context.folder / CALLS
    start = own and start_of(run, own, ledgers)
    if not (own and start):
        return
    ledger, lost = current(start, run)
    if lost is not None:
        _doubt(
            context,
            f"the run that wrote {where} went on with {lost}, which is not there or has other calls",
        )
    if is_same(ledger, own):
        return
    with run_lock.kept(ledger.parent) as other:
        if other is not None:
            _doubt(
                context, f"the run that wrote {where} is still alive in {ledger.parent} ({other})"
            )
            return
        try:
            if not can_become(own, ledger, run):
                _doubt(
                    context,
                    f"{own} has calls of another run, behind which those of this one would not be found "
                    "later (give the trainer another output directory)",
                )
            elif not move(ledger, own, run):
                logger.warning(
                    "%s cannot be written, so a run that resumes from %s once more will not count the "
                    "calls of this one",
                    ledger,
                    where,
                )
        except OSError as error:
            raise StateError(
                f"the ledger {ledger} of the run that wrote {where} cannot be copied to {own}: {error}; "
                "fix that, or copy it by hand"
            ) from None


def spent_before(
    context: RunContext, known: Mapping[str, float], run: str, ledgers: Sequence[Path], where: str
) -> Mapping[str, float]:
    """Return what a resumed run has spent.

    That is by its own ledger and the checkpoint (`known`), or by one of `ledgers` that could not be taken
    along, because the folder has that of another run. Calls between the checkpoint and a kill are in a
    ledger alone. Raise StateError if a budget is set and
    the ledger is missing or ends before the checkpoint; with `resume = "force"` warn.
    """
    if context.ledger.was_whole:
        return known
    own = context.folder and context.folder / CALLS
    for path in ledgers:
        is_another = path.is_file() and not (own and is_same(path, own))
        spent = Ledger.spent_in(path, run) if is_another else None
        if spent is not None:
            return {name: max(value, known.get(name, 0.0)) for name, value in spent.items()}
    if context.folder:
        _doubt(
            context,
            f"the ledger of the run that wrote {where} ({CALLS}) is neither whole in {context.folder} nor "
            f"beside the checkpoint (copy it to {context.folder} to have it counted)",
        )
    return known


def _doubt(context: RunContext, told: str) -> None:
    """Refuse to resume if a budget is set, and the run may have spent more than is known."""
    settings = context.settings
    budgets = [name for name in _BUDGETS if getattr(settings.reflection, name) is not None]
    if not budgets:
        return
    told += f", so reflection.{' and reflection.'.join(budgets)} may be exceeded"
    if settings.resume != "force":
        raise StateError(f'{told}; set resume = "force" to resume all the same')
    logger.warning("%s", told)
