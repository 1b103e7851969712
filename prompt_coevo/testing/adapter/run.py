"""A run as the laws read it: the job, the harness's record, and the hook calls that the probe recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from prompt_coevo.placement import Placement, Prompt
from prompt_coevo.testing.adapter.host import AdapterUnderTest
from prompt_coevo.testing.adapter.job import Job, reward_of
from prompt_coevo.testing.adapter.record import Moment, Record, Sampled, Trained
from prompt_coevo.types import Assignment

Ids: TypeAlias = tuple[int, ...]
Line: TypeAlias = dict[str, Any]
"""A journal line. In lines of the probe the event has no prefix."""


def probe_lines(journal: Iterable[Line]) -> list[Line]:
    """Return the lines that the probe wrote, without the prefix of their events."""
    return [
        {**line, "event": event}
        for line in journal
        if (event := line["event"].removeprefix("probe_")) != line["event"]
    ]


@dataclass(frozen=True)
class Answer:
    """A scored completion as the engine got it."""

    assignment: Assignment
    text: str
    reward: float | None
    status: str

    @classmethod
    def read(cls, line: Line) -> Answer:
        return cls(**{**line, "assignment": Assignment.from_json(line["assignment"])})


@dataclass(frozen=True)
class Asked:
    """A batch of policy rollouts: after how many updates, the requests and the answers."""

    step: int
    requests: Sequence[tuple[Assignment, float | None]]
    answers: Sequence[Answer]

    @classmethod
    def read(cls, line: Line, owed: bool) -> Asked:
        """Read a line. `owed`: the step that the engine counts next is already over."""
        wanted = [(one["assignment"], one["temperature"]) for one in line["requests"]]
        requests = [(Assignment.from_json(one), temperature) for one, temperature in wanted]
        return cls(line["step"] + owed, requests, [*map(Answer.read, line["rollouts"])])


@dataclass
class Run:
    """A finished run. Lines of earlier starts in the same folder do not count."""

    adapter: AdapterUnderTest
    job: Job
    record: Record
    _encoded: dict[str, Ids] = field(default_factory=dict)

    # What the probe recorded

    @cached_property
    def lines(self) -> list[Line]:
        """Return the probe's lines since the engine was built."""
        lines = probe_lines(self.record.journal)
        built = [number for number, line in enumerate(lines) if line["event"] == "built"]
        assert built, (
            "the journal in the record holds no line of the kit's plugin: return all lines of "
            "coevo/events.jsonl, and pass the settings of the job on"
        )
        return lines[built[-1] :]

    def told(self, *events: str) -> list[Line]:
        """Return the lines of these events, in order."""
        return [line for line in self.lines if line["event"] in events]

    @cached_property
    def plan(self) -> dict[int, list[Assignment]]:
        """Return the planned assignments by round."""
        rounds: dict[int, list[Assignment]] = {}
        for line in self.told("planned"):
            group = [Assignment.from_json(one) for one in line["plan"]]
            rounds.setdefault(group[0].round, []).extend(group)
        return rounds

    @cached_property
    def observed(self) -> list[Answer]:
        """Return all observed answers."""
        return [Answer.read(one) for line in self.told("observed") for one in line["rollouts"]]

    @cached_property
    def asked(self) -> list[Asked]:
        """Return the batches of policy rollouts."""
        resumed = self.job.resume_from is not None
        owed = resumed and "steps in checkpoints" in self.adapter.lacks
        found = []
        for line in self.told("asked", "stepped"):
            if line["event"] == "asked":
                found.append(Asked.read(line, owed))
            else:
                owed = False
        return found

    def evaluation_text(self, update: int) -> str:
        """Return the evaluation instruction after so many updates."""
        lines = self.told("built", "loaded", "begun", "stepped")
        return str([line["evaluation"] for line in lines if line["step"] <= update][-1])

    # Expected values, by question or assignment

    def prompt(self, question_id: str) -> Prompt:
        """Return the prompt of a question as it stands in the job's dataset."""
        prompt: Prompt = next(row["prompt"] for row in self.job.rows if row["id"] == question_id)
        return prompt

    def placed(self, assignment: Assignment) -> Ids:
        """Return the prompt ids that a rollout must be sampled with."""
        return self.encode(assignment.rollout_prompt(self.prompt(assignment.question_id)))

    def to_train(self, assignment: Assignment) -> Ids:
        """Return the prompt ids that a rollout must be trained on."""
        return self.encode(assignment.train_prompt(self.prompt(assignment.question_id)))

    def evaluated(self, question_id: str, instruction: str) -> Ids:
        """Return the prompt ids that a question must be evaluated with."""
        placement = Placement(**self.job.settings["placement"])
        return self.encode(placement.place(self.prompt(question_id), instruction, None))

    def encode(self, prompt: Prompt) -> Ids:
        key = repr(prompt)
        if key not in self._encoded:
            self._encoded[key] = tuple(self.adapter.encode(prompt))
        return self._encoded[key]

    def sampled(self, moment: Moment, number: int | None = None) -> list[Sampled]:
        """Return the rows of the trainer's sampler."""
        rows = [row for row in self.record.sampled if row.moment == moment]
        return rows if number is None else [row for row in rows if row.number == number]

    def reward(self, answer: Answer) -> float | None:
        """Return the reward that a completion should have."""
        return reward_of(self.job, answer.assignment.question_id, answer.text)

    @cached_property
    def trainable(self) -> dict[Ids, list[tuple[int, Assignment]]]:
        """Return the sequences that may be trained on, each with the start of its completion and its
        assignment."""
        completions: dict[tuple[int, Ids, str], set[Ids]] = {}
        for row in self.sampled("train"):
            key = (row.number, tuple(row.prompt_ids), row.text)
            completions.setdefault(key, set()).add(tuple(row.completion_ids))
        found: dict[Ids, list[tuple[int, Assignment]]] = {}
        for answer in self.observed:
            assignment, prompt = answer.assignment, self.to_train(answer.assignment)
            key = (assignment.round, self.placed(assignment), answer.text)
            for completion in completions.get(key, ()):
                found.setdefault(prompt + completion, []).append((len(prompt), assignment))
        return found

    def trained(self) -> Iterable[tuple[Trained, list[tuple[int, Assignment]]]]:
        """Yield every trained row with the planned rollouts that it may belong to."""
        for row in self.record.trained:
            yield row, self.trainable.get(tuple(row.ids), [])
