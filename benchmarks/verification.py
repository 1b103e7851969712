"""Does verification change who joins the population? Read from the journals of finished runs.

    python benchmarks/verification.py FOLDER [--json FILE]

FOLDER is what `prompt-coevo demo --arms inspo --out FOLDER` wrote. For every evolution of the arm `inspo`
the instructions that joined are compared with those that would have joined without verification: the
first ones that passed the gates, as many as there was room for. Because at most three join in a round,
that differs easily; so it is also counted in how many evolutions a candidate was refused because it did
worse than its parent.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOM = 6  # N_P = 7, N_parent = 1


def evolutions(journal: Path) -> list[tuple[list[str], list[str]]]:
    """For each evolution: who passed the gates, in order, and who of them joined."""
    passed: defaultdict[int, list[str]] = defaultdict(list)
    joined: defaultdict[int, list[str]] = defaultdict(list)
    for line in journal.read_text("utf-8").splitlines():
        event: dict[str, Any] = json.loads(line)
        if event["step"] == 0:
            continue  # the paraphrases that the population starts with
        if event["event"] == "candidate_checked" and event["accepted"]:
            passed[event["step"]].append(event["candidate"]["id"])
        elif event["event"] == "population_changed":
            joined[event["step"]] += [candidate["id"] for candidate in event["added"]]
    return [(candidates, joined[step]) for step, candidates in sorted(passed.items())]


def worse_than_parent(journal: Path) -> dict[int, int]:
    """For each evolution, how many candidates did worse than their parent."""
    worse: defaultdict[int, int] = defaultdict(int)
    for line in journal.read_text("utf-8").splitlines():
        event: dict[str, Any] = json.loads(line)
        if event["event"] == "candidate_verified":
            worse[event["step"]] += sum(event["rewards"]) < sum(event["parent_rewards"])
    return worse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    journals = sorted(options.folder.glob("inspo-seed*/coevo/events.jsonl"))
    found = [evolution for journal in journals for evolution in evolutions(journal)]
    changed = sum(set(joined) != set(passed[:ROOM]) for passed, joined in found)
    worse = [count for journal in journals for count in worse_than_parent(journal).values()]
    result = {
        "runs": len(journals),
        "evolutions": len(found),
        "candidates_verified": sum(len(passed) for passed, _ in found),
        "candidates_joined": sum(len(joined) for _, joined in found),
        "evolutions_changed_by_verification": changed,
        "evolutions_changed_percent": 100 * changed / len(found),
        "candidates_worse_than_parent": sum(worse),
        "evolutions_with_one_worse_percent": 100 * sum(count > 0 for count in worse) / len(found),
    }
    for name, value in result.items():
        print(f"{name:38} {value:8.1f}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
