"""Check the invariants of a repeatedly killed run's files.

Every check yields a sentence for each violation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from evidence import (
    Account,
    Attempt,
    Event,
    Evidence,
    asked,
    begun_of,
    coevo,
    decided,
    parts,
)

AT_ONCE: Final = 8
"""Calls that may be between the ledger and the journal: two methods with `concurrency` 4 each."""


def check(
    folder: Path, max_calls: int, undisturbed: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the findings; `broken` has a sentence for every violated promise.

    `undisturbed` is what `summary` gives of the same run without a kill, if the teacher answers equal
    prompts alike and the budget does not bind: lost calls count in a budget. Of a run with an output folder
    for each attempt, plans, calls and what is left behind are checked; its journals are not.
    """
    found = Evidence(folder)
    broken = [
        *_planned_alike(found),
        *_budget(found, max_calls),
        *_counted(found),
        *_paid_twice(found),
        *_ledger(found),
        *_left(folder),
        *(() if parts(folder) else _in_one_folder(found)),
        *(_compared(found, undisturbed) if undisturbed is not None else ()),
    ]
    plans = list(found.plans)
    rounds = {line["round"] for line in plans}
    return {
        "broken": [f"{folder.name}: {sentence}" for sentence in broken],
        "kills": len(_deaths(found)),
        "pauses": len(found.kills) - len(_deaths(found)),
        "calls": len(found.account.asked),
        "lost": len(found.account.lost),
        "reused": sum(line["event"] == "reused" for line in found.record),
        "rounds": len(rounds),
        "planned_again": len(plans) - len(rounds),
        "damaged": found.damaged_events + found.account.damaged,
    }


def summary(folder: Path) -> dict[str, Any]:
    """Return an undisturbed run's decisions and requests. Raises AssertionError if it is incomplete."""
    found = Evidence(folder)
    broken = check(folder, len(found.account.asked))["broken"]
    assert not broken, broken
    return {
        "plans": {line["round"]: line["plan"] for line in found.plans},
        "answered": found.account.answered(),
        "decided": decided(found.timeline[0]),
    }


def _deaths(found: Evidence) -> list[Event]:
    return [one for one in found.kills if one["how"] != "pause"]


def _in_one_folder(found: Evidence) -> Iterator[str]:
    yield from _decisions(found)
    yield from _nothing_rewritten(found)
    yield from _journal(found)


def _decisions(found: Evidence) -> Iterator[str]:
    """Check that events are decided again as before."""
    counts, repeated = found.timeline
    now = decided(counts)
    for events in repeated:
        for event in decided(events) - now:
            yield f"decided before a kill, and not after it: {event[:300]}"


def _planned_alike(found: Evidence) -> Iterator[str]:
    """Check that a repeated round is planned as before."""
    plans: dict[int, Any] = {}
    for line in found.plans:
        if plans.setdefault(line["round"], line["plan"]) != line["plan"]:
            yield f"round {line['round']} is planned otherwise in attempt {line['attempt']}"
    if sorted(plans) != list(range(len(plans))):
        yield f"of the rounds up to {max(plans)} only {len(plans)} were planned"


def _budget(found: Evidence, max_calls: int) -> Iterator[str]:
    """Check after every kill and at the end that the teacher's and the ledger's counts keep the budget."""
    at_the_end = {"seen": len(asked(found.folder)), "asked": len(found.account.asked)}
    for number, count in enumerate((*found.kills, at_the_end), 1):
        where = f"kill {number}" if number <= len(found.kills) else "the end"
        if count["seen"] > count["asked"]:
            yield (
                f"at {where} the teacher was asked {count['seen']} times, the ledger says {count['asked']}"
            )
        if count["asked"] > max_calls:
            yield f"at {where} {count['asked']} calls, above the budget of {max_calls}"


def _counted(found: Evidence) -> Iterator[str]:
    """Check the run's reported spending: every call, with lost ones at the most they can cost."""
    ends = [one for one in found.events if one["event"] == "training_ended"]
    last = max((attempt.start["attempt"] for attempt in found.attempts), default=0)
    # A run killed after its end, but before its process exited, ends again.
    ended = [one["metrics"] for one in ends if one["attempt"] == last]
    if len(ended) != 1 or any(
        times > 1 for times in Counter(one["attempt"] for one in ends).values()
    ):
        yield f"the run ended {len(ended)} times"
        return
    account = found.account
    outcomes = [
        one for one in (*account.answers, *account.gave_up) if one["line"] < account.run_ended
    ]
    for name in ("calls", "prompt_tokens", "completion_tokens"):
        if name == "calls":
            spent = float(len(account.asked))
        else:
            spent = sum(one["reply"]["usage"][name] for one in outcomes)
            spent += sum(one["most"][name] for one in account.lost if one not in _late(found))
        said = ended[0].get(f"coevo/reflection_{name}", 0.0)
        if said != spent:
            yield f"the run says that it spent {said:g} {name}, the ledger says {spent:g}"


def _paid_twice(found: Evidence) -> Iterator[str]:
    """Check that a usable reply is used once, before its request is paid for again.

    Two places of one run may ask equal prompts, so a second call is right when as many replies have been
    used as there were.
    """
    for number, attempt in enumerate(found.attempts):
        where = f"attempt {attempt.start['attempt']}"
        known = _available(found.account, attempt)
        used: Counter[int] = Counter(
            line["call"] for line in attempt.after_start if line["event"] == "reused"
        )
        for call, times in used.items():
            if times > 1:
                yield f"{where} used the reply to call {call} {times} times"
            if call not in known:
                yield f"{where} used the reply to call {call}, which its checkpoint knows"
        fresh = _fresh(found.account, attempt)
        for call, request in known.items():
            if call not in used and request in fresh:
                yield f"call {call} was answered before {where} and paid for again as {fresh[request]}"
        later = found.attempts[number + 1 :]
        unused = known.keys() - _used_before(attempt, later) - _known_later(found, later)
        for call in unused - _perhaps_known(found.account, attempt):
            yield f"the reply to call {call} was there for {where} and was never used"


def _available(account: Account, attempt: Attempt) -> dict[int, str]:
    """Return the calls whose replies the attempt found, and their requests."""
    since, under_way = attempt.available
    return {
        one["call"]: one["request"]
        for one in account.answers
        if one["line"] <= attempt.start["line"]
        and (one["line"] > since or one["call"] in under_way)
    }


def _perhaps_known(account: Account, attempt: Attempt) -> set[int]:
    """Return the calls in flight when writing the state began, and answered before it was complete: the
    methods, which come a moment later, may have used these."""
    since, under_way = attempt.available
    return {
        one["call"] for one in account.answers if one["line"] <= since and one["call"] in under_way
    }


def _fresh(account: Account, attempt: Attempt) -> dict[str, int]:
    """Return the requests that the attempt paid for, and the last call for each."""
    first, last = attempt.start["line"], attempt.end
    return {one["request"]: one["call"] for one in account.asked if first < one["line"] <= last}


def _used_before(attempt: Attempt, later: list[Attempt]) -> set[int]:
    """Return the calls reused before the state that the next attempt loads; all if there is none."""
    used: set[int] = set()
    for line in attempt.after_start:
        if line["event"] == "reused":
            used.add(line["call"])
        elif later and line["event"] == "saved" and line["checksum"] == later[0].start["checksum"]:
            break
    return used


def _known_later(found: Evidence, later: list[Attempt]) -> set[int]:
    return set(_available(found.account, later[0])) if later else set()


def _ledger(found: Evidence) -> Iterator[str]:
    """Check that the ledger's lines and calls are consecutive; a kill damages one line at most."""
    account = found.account
    numbers = [one["line"] for one in account.records]
    if numbers != list(range(1, len(numbers) + 1)):
        yield "the lines of the ledger do not follow each other"
    calls = [one["call"] for one in account.asked]
    if calls != list(range(1, len(calls) + 1)):
        yield "the calls of the ledger do not follow each other"
    ends = Counter(one["call"] for one in (*account.answers, *account.gave_up))
    for call, times in ends.items():
        if times > 1:
            yield f"call {call} has {times} outcomes"
        if call not in account.requests:
            yield f"call {call} was answered and never asked"
    if account.damaged > len(_deaths(found)):
        yield f"{account.damaged} lines of the ledger are damaged after {len(_deaths(found))} kills"
    if len(late := _late(found)) > AT_ONCE // 2:
        calls = [one["call"] for one in late]
        yield f"calls {calls} have no outcome, and nothing was killed after them"


def _late(found: Evidence) -> list[Event]:
    """Return the last attempt's calls without an outcome: a few may be in flight when a run ends."""
    last = found.attempts[-1].start["line"] if found.attempts else 0
    return [one for one in found.account.lost if one["line"] > last]


def _nothing_rewritten(found: Evidence) -> Iterator[str]:
    """Check that what was in the files at a kill is there at the end."""
    for number, kill in enumerate(found.kills, 1):
        for name, (size, was) in kill["kept"].items():
            if begun_of(coevo(found.folder) / name, size) != was:
                yield f"{name} does not begin as it did at kill {number}"


def _journal(found: Evidence) -> Iterator[str]:
    """Check that no event is lost."""
    events, kills = found.events, len(_deaths(found))
    if found.damaged_events > kills:
        yield f"{found.damaged_events} lines of the journal are damaged after {kills} kills"
    if gaps := sum(one["lost"] for one in events if one["event"] == "gap"):
        yield f"{gaps} events could not be written"
    numbers = [one["attempt"] for one in events if "attempt" in one]
    if numbers != sorted(numbers) or set(numbers) != set(range(max(numbers, default=-1) + 1)):
        yield "the attempts do not follow each other in the journal"
    begins = Counter(one["attempt"] for one in events if one["event"] in ("run_begins", "resumed"))
    work = {one["attempt"] for one in events if one["event"] not in _BEFORE_THE_START}
    if work - begins.keys() or any(times > 1 for times in begins.values()):
        yield "not every attempt says once what runs"
    saved = {one["checksum"] for one in events if one["event"] == "state_saved"}
    for attempt in found.attempts:
        checksum = attempt.start["checksum"]
        if checksum is not None and checksum not in saved:
            yield f"attempt {attempt.start['attempt']} has a checkpoint that no event speaks of"
    texts = {one["id"] for one in events if one["event"] == "text"}
    if nameless := {one["prompt"] for one in events if one["event"] == "reply"} - texts:
        yield f"{len(nameless)} prompts are named whose text is nowhere"
    yield from _replies_told(found)
    requests = set(found.account.requests.values())
    told = {one["request"] for one in events if one["event"] == "candidate_checked"}
    if missing := told - requests:
        yield f"{len(missing)} candidates were checked whose request is in no ledger"


_BEFORE_THE_START: Final = frozenset(
    {"every_question_is_hard", "gap", "ledger_opened", "reply", "text"}
)
"""Events that may come before the one that says what runs: a state that is loaded may ask again."""


def _replies_told(found: Evidence) -> Iterator[str]:
    """Check that the journal has all replies in the ledger, except the last ones before a kill."""
    told = {one["call"] for one in found.events if one["event"] == "reply"}
    ends = [*found.account.answers, *found.account.gave_up]
    for attempt in found.attempts:
        own = sorted(
            one["line"] for one in ends if attempt.start["line"] < one["line"] <= attempt.end
        )
        killed = attempt is not found.attempts[-1]
        excused = set(own[-AT_ONCE:] if killed else ())
        for one in ends:
            if one["line"] in own and one["line"] not in excused and one["call"] not in told:
                yield f"the journal does not tell of the reply to call {one['call']}"


def _left(folder: Path) -> Iterator[str]:
    if left := sorted(path.name for path in coevo(folder).rglob("*.tmp")):
        yield f"left behind: {left}"


def _compared(found: Evidence, undisturbed: Mapping[str, Any]) -> Iterator[str]:
    plans = {line["round"]: line["plan"] for line in found.plans}
    for number, plan in undisturbed["plans"].items():
        if plans.get(number) != plan:
            yield f"round {number} is not what it is without kills"
            break
    if plans.keys() - undisturbed["plans"].keys():
        yield "there are more rounds than without kills"
    for request, count in found.account.answered().items():
        if count > undisturbed["answered"][request]:
            yield (
                f"a request was paid for {count} times, {undisturbed['answered'][request]} times "
                "without kills"
            )
    now, then = decided(found.timeline[0]), undisturbed["decided"]
    for event in then - now:
        yield f"an event is lost: {event[:300]}"
    for event in now - then:
        yield f"an event is there that is not without kills: {event[:300]}"
