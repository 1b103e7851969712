"""What must be true of the files of a run that was killed again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from prompt_coevo.engine.journal import Journal
from prompt_coevo.lines import Lines

Plan = list[list[str]]


def lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        yield from (line for line in Lines(path).read() if line is not None)


def decisions(folder: Path) -> tuple[dict[int, Plan], list[str]]:
    """The plan of every round, and the rounds that were planned again and otherwise."""
    plans: dict[int, Plan] = {}
    broken = []
    for line in lines(folder / "plans.jsonl"):
        known = plans.setdefault(line["round"], line["plan"])
        if known != line["plan"]:
            broken.append(
                f"round {line['round']} is planned otherwise in attempt {line['attempt']}"
            )
    return plans, broken


def asked(folder: Path) -> list[dict[str, Any]]:
    """The calls that the teacher saw."""
    return [line for line in lines(folder / "teacher.jsonl") if "asked" in line]


class Account:
    """The ledger of a run, as a stranger reads it."""

    def __init__(self, folder: Path) -> None:
        records = list(lines(folder / "coevo" / "calls.jsonl"))
        self.requests = {r["call"]: r["request"] for r in records if r["event"] == "asked"}
        self.answered = {r["call"] for r in records if r["event"] == "answered"}
        self.gave_up = {r["call"] for r in records if r["event"] == "gave_up"}

    @property
    def lost(self) -> set[int]:
        return self.requests.keys() - self.answered - self.gave_up

    def answers(self) -> Counter[str]:
        """How often each request was answered."""
        return Counter(self.requests[call] for call in self.answered & self.requests.keys())


def check(
    folder: Path, kills: int, max_calls: int, undisturbed: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What was found; `broken` holds a sentence for every promise that was not kept.

    `undisturbed` is what `summary` gives of the same run without a kill, if the teacher answers equal
    prompts alike.
    """
    plans, broken = decisions(folder)
    account, seen = Account(folder), len(asked(folder))
    if seen > len(account.requests):
        broken.append(
            f"the teacher was asked {seen} times, the ledger says {len(account.requests)}"
        )
    if len(account.requests) > max_calls:
        broken.append(f"{len(account.requests)} calls, above the budget of {max_calls}")
    journal = Journal(folder / "coevo")
    events = Counter(str(event["event"]) for event in journal.read())
    if journal.damaged > kills:
        broken.append(f"{journal.damaged} lines of the journal are damaged after {kills} kills")
    if events["training_ended"] != 1:
        broken.append(f"the run ended {events['training_ended']} times")
    begun = events["run_begins"] + events["resumed"]
    if begun < 1:
        broken.append("no event says what ran")
    told = {event["request"] for event in journal.read() if event["event"] == "candidate_checked"}
    if missing := told - set(account.requests.values()):
        broken.append(f"{len(missing)} candidates were checked whose request is in no ledger")
    left = [path.name for path in folder.rglob("*.tmp")]
    if left:
        broken.append(f"left behind: {left}")
    if undisturbed is not None:
        broken += _compared(folder, plans, account, undisturbed)
    return {
        "broken": broken,
        "kills": kills,
        "calls": len(account.requests),
        "lost": len(account.lost),
        "rounds": len(plans),
        "planned_again": sum(1 for _ in lines(folder / "plans.jsonl")) - len(plans),
        "damaged": journal.damaged,
    }


def summary(folder: Path) -> dict[str, Any]:
    """What a run without a kill decided and asked."""
    plans, broken = decisions(folder)
    assert not broken
    return {"plans": plans, "answered": Account(folder).answers()}


def _compared(
    folder: Path, plans: Mapping[int, Plan], account: Account, undisturbed: Mapping[str, Any]
) -> Iterator[str]:
    for number, plan in undisturbed["plans"].items():
        if plans.get(number) != plan:
            yield f"{folder.name}: round {number} is not what it is without kills"
            break
    for request, count in account.answers().items():
        if count > undisturbed["answered"][request]:
            yield (
                f"{folder.name}: a request was paid for {count} times, "
                f"{undisturbed['answered'][request]} times without kills"
            )
