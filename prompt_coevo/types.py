"""The data types of the interface, as frozen dataclasses."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import (
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
)

from prompt_coevo.errors import HostError
from prompt_coevo.lines import JSON
from prompt_coevo.placement import Placement, Prompt

CandidateKind: TypeAlias = Literal["instruction", "template"]
RolloutStatus: TypeAlias = Literal["ok", "tool_error", "aborted", "no_reward"]
_STATUSES: Final[tuple[str, ...]] = get_args(RolloutStatus)
_KINDS: Final[tuple[str, ...]] = get_args(CandidateKind)
V = TypeVar("V")


class PolicyVersion(NamedTuple):
    """A version of the weights: the attempt (each resume begins a new one) and the updates so far."""

    attempt: int = 0
    step: int = 0


@dataclass(frozen=True)
class Question:
    """One dataset row `x`: its id, its prompt (string or chat) and its ground truth, if known.

    `columns` holds the other columns of the row that `row_columns` or a method's settings name.
    """

    id: str
    prompt: Prompt
    ground_truth: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidate:
    """An instruction `I_j` (INSPO) or a template `z` (P2O). The id is a hash of kind and text."""

    text: str
    kind: CandidateKind
    origin: str = "user"
    parents: tuple[str, ...] = ()
    created: PolicyVersion = PolicyVersion()

    @cached_property
    def id(self) -> str:
        data = f"{self.kind}\0{self.text}".encode("utf-8", "surrogatepass")
        return hashlib.sha256(data).hexdigest()[:16]

    def to_json(self) -> dict[str, JSON]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Candidate:
        """Restore from `to_json`. Raise KeyError, TypeError or ValueError for anything else."""
        if data["kind"] not in _KINDS:
            raise ValueError("a candidate is an instruction or a template")
        return cls(
            text=_of(str, data["text"]),
            kind=data["kind"],
            origin=_of(str, data["origin"]),
            parents=tuple(data["parents"]),
            created=PolicyVersion(*data["created"]),
        )


EMPTY_TEMPLATE = Candidate(text="", kind="template", origin="empty")
"""`ε`, the empty template of P2O eq. 3: it leaves the question unchanged."""


@dataclass(frozen=True)
class MemberPlan:
    """A method's plan for one rollout of a group. None leaves a part to other methods.

    `distill`, `placement` and `punished_from` belong to the template; the first two default to the
    settings. A distilled rollout whose deciding reward is below `punished_from` gets no negative advantage.
    """

    instruction: Candidate | None = None
    template: Candidate | None = None
    distill: bool | None = None
    placement: Placement | None = None
    punished_from: float | None = None


@dataclass(frozen=True)
class Assignment:
    """The instruction and template of one rollout. Self-contained JSON, so it can travel with its row.

    `round` counts the trainer's generation rounds; `group` and `member` locate the rollout in its round.
    With `distill` the trained prompt leaves the template out (P2O eq. 5). A distilled rollout keeps a
    negative advantage if its deciding reward is at least `punished_from` (None: always).
    """

    question_id: str
    round: int = 0
    group: int = 0
    member: int = 0
    instruction: Candidate | None = None
    template: Candidate | None = None
    distill: bool = True
    placement: Placement = field(default_factory=Placement)
    punished_from: float | None = None

    @property
    def templated(self) -> bool:
        """True if the rollout's prompt has a non-empty template."""
        return self.template is not None and bool(self.template.text)

    @property
    def distilled(self) -> bool:
        """True if the trained prompt differs from the one rolled out."""
        return self.templated and self.distill

    def unpunished(self, reward: float) -> bool:
        """Check whether a rollout with this deciding reward gets 0 instead of a negative advantage."""
        if self.punished_from is None or not self.distilled:
            return False
        return not reward >= self.punished_from  # true for NaN: no reward, no punishment

    def rollout_prompt(self, prompt: Prompt) -> Prompt:
        """Return the prompt that the policy sees: `(I, T(x, z))`. String or chat in, same kind out."""
        return self.placement.place(prompt, self.instruction_text, self.template_text)

    def train_prompt(self, prompt: Prompt) -> Prompt:
        """Return the prompt of the loss: `(I, x)`, or the rollout's prompt without distillation."""
        template = None if self.distill else self.template_text
        return self.placement.place(prompt, self.instruction_text, template)

    @property
    def instruction_text(self) -> str | None:
        """The instruction's text, or None without one."""
        return self.instruction.text if self.instruction else None

    @property
    def template_text(self) -> str | None:
        """The template's text, or None without one."""
        return self.template.text if self.template else None

    def to_json(self) -> dict[str, JSON]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Assignment:
        """Restore from `to_json`. Raise HostError for anything else: other programs may have changed it."""
        try:
            candidates = {
                name: None if data[name] is None else Candidate.from_json(data[name])
                for name in ("instruction", "template")
            }
            layouts: dict[str, Any] = {
                name: _of(str, one) for name, one in data["placement"].items()
            }
            return cls(
                question_id=_of(str, data["question_id"]),
                round=_of(int, data["round"]),
                group=_of(int, data["group"]),
                member=_of(int, data["member"]),
                **candidates,
                distill=_of(bool, data["distill"]),
                placement=Placement(**layouts),
                punished_from=None
                if (least := data.get("punished_from")) is None
                else _of(float, least),
            )
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise HostError(
                f"an assignment did not come back as it was sent ({type(error).__name__}: {error}); the "
                "trainer must pass on its values unchanged"
            ) from None


@dataclass(frozen=True)
class Sampling:
    """Sampling settings of a rollout outside the training batch.

    `temperature` 0 is greedy, None is the trainer's own temperature.
    """

    temperature: float | None = None


@dataclass(frozen=True)
class RolloutRequest:
    """The engine's request for a rollout of the current policy outside the training batch."""

    assignment: Assignment
    sampling: Sampling


@dataclass(frozen=True)
class Rollout:
    """One sampled completion with its reward and the version of the weights that wrote it.

    A reward of another numeric type, such as numpy's, becomes a float: rewards end up in JSON.
    """

    assignment: Assignment
    text: str | LateText
    """The completion, or a text that is fetched when `completion` is read; `bring_texts` fetches many."""

    reward: float
    status: RolloutStatus = "ok"
    policy_version: PolicyVersion = PolicyVersion()

    def __post_init__(self) -> None:
        if type(self.reward) is not float:
            object.__setattr__(self, "reward", float(self.reward))

    @classmethod
    def scored(
        cls,
        assignment: Assignment,
        text: str | LateText,
        reward: float,
        version: PolicyVersion,
        reported: str | None = None,
    ) -> Rollout:
        """A rollout as it came back. `reported` is what its agent says of it, such as `tool_error`.

        Without a report, a reward that is not finite means `no_reward`. Raises HostError for a report
        that is no status.
        """
        status = reported or ("ok" if math.isfinite(reward) else "no_reward")
        if status not in _STATUSES:
            raise HostError(
                f"an agent reports the unknown status {status!r}; known: {', '.join(_STATUSES)}"
            )
        return cls(assignment, text, reward, cast(RolloutStatus, status), version)

    @property
    def completion(self) -> str:
        """The text as rewards see it. Raises what the source of a late one raises."""
        return str(self.text)

    @property
    def fit(self) -> bool:
        """True if the rollout tells how well its prompt works: status `ok` and a finite reward."""
        return self.status == "ok" and math.isfinite(self.reward)


class LateText:
    """A text that `source` is asked for when it is read: it returns those of some names, in their order.

    Equal to its text; a copy or a pickle is the text itself, since its reader may be far from the source.
    """

    def __init__(self, source: Callable[[Sequence[str]], Sequence[str]], name: str) -> None:
        self._source = source
        self._name = name
        self._text: str | None = None

    def __str__(self) -> str:
        if self._text is None:
            LateText.bring([self])
        return str(self._text)

    def __repr__(self) -> str:
        return repr(str(self))

    def __eq__(self, other: object) -> bool:
        return str(self) == (str(other) if isinstance(other, LateText) else other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)

    @staticmethod
    def bring(texts: Iterable[LateText]) -> None:
        """Fetch those that were not fetched yet: one call for each source. Raises what a source raises."""
        missing: dict[Callable[[Sequence[str]], Sequence[str]], list[LateText]] = {}
        for one in texts:
            if one._text is None:
                missing.setdefault(one._source, []).append(one)
        for source, some in missing.items():
            for one, text in zip(some, source([one._name for one in some]), strict=True):
                one._text = text


def bring_texts(rollouts: Iterable[Rollout]) -> None:
    """Fetch the late completions of these rollouts in one call for each source. Raises what one raises."""
    LateText.bring(one.text for one in rollouts if isinstance(one.text, LateText))


@dataclass(frozen=True)
class Group:
    """The `G` (INSPO) or `K` (P2O) rollouts of a question in one round."""

    question_id: str
    rollouts: tuple[Rollout, ...]

    @property
    def bare(self) -> Group:
        """The group's rollouts without a template; there may be none."""
        rollouts = tuple(one for one in self.rollouts if not one.assignment.templated)
        return Group(self.question_id, rollouts)

    def solved_share(self, solved_at: float) -> float | None:
        """Return the share of `fit` rollouts with at least this reward; None if none is fit."""
        rewards = [rollout.reward for rollout in self.rollouts if rollout.fit]
        return sum(one >= solved_at for one in rewards) / len(rewards) if rewards else None

    @cached_property
    def mean_reward(self) -> float | None:
        """Mean reward of the `fit` rollouts; None if there is none."""
        rewards = [rollout.reward for rollout in self.rollouts if rollout.fit]
        # fsum is exact: the order of the rollouts cannot decide whether a question is hard.
        return math.fsum(rewards) / len(rewards) if rewards else None


class OfRound(float):
    """A metric that describes only the last round, not a total or a current value.

    A trainer that logs every few steps logs the mean of these, and the last value of all others.
    """


@dataclass(frozen=True)
class Summary:
    """The result of a run in a sentence or two. `for_nothing`: it had no effect, or did harm.

    `lines` are further sentences; `findings` holds the same as JSON values for the report.
    """

    text: str
    for_nothing: bool = False
    lines: tuple[str, ...] = ()
    findings: Mapping[str, JSON] | None = None


def _of(kind: type[V], value: object) -> V:
    if type(value) is not kind:
        raise TypeError(f"a {type(value).__name__} where there was a {kind.__name__}")
    return value
