"""The sections of the settings. The defaults are the papers' values."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ImportString,
    SecretStr,
    field_validator,
    model_validator,
)

from prompt_coevo.budget import Overspend
from prompt_coevo.placement import Placement, check_layout


class Section(BaseModel):
    """A group of settings: unknown names are refused, values do not change afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class PlacementSettings(Section):
    """Where instruction and template go in a prompt."""

    instruction: Literal["system", "prefix"] = "system"
    """`system`: as the chat's system message; `prefix`: in front of the last user message."""
    instruction_layout: str = Placement.instruction_layout
    """How an instruction in front of a prompt is joined to it."""
    template_layout: str = Placement.template_layout
    """How a template is joined to a question: `T(x, z)`, P2O section 3.2."""

    @model_validator(mode="after")
    def _check_layouts(self) -> PlacementSettings:
        check_layout(
            self.instruction_layout, ["instruction", "prompt"], "placement.instruction_layout"
        )
        check_layout(self.template_layout, ["template", "question"], "placement.template_layout")
        return self

    def build(self) -> Placement:
        return Placement(**self.model_dump())


_OF_A_MODEL = {"temperature", "max_tokens"}
_OF_A_REMOTE_MODEL = {"api_base", "api_key", "timeout_s", "total_timeout_s"}


class ReflectionSettings(Section):
    """Who writes new candidates."""

    model: str | None = None
    """`"self"` for the initial policy (P2O's self-reference), or any litellm model name (a teacher)."""
    function: ImportString[Any] | None = None
    """A callable from prompt text to reply text, or its import path, in place of a model."""
    api_base: str | None = None
    """Base URL of an OpenAI-compatible server, such as a local vLLM."""
    api_key: SecretStr | None = None
    """Better left to the provider's own environment variable."""
    temperature: float = Field(default=1.0, ge=0.0)
    """Sampling temperature of the reflection model."""
    max_tokens: int = Field(default=4096, ge=1)
    """Longest reply, in tokens; a reply that reaches it is rejected."""
    concurrency: int | None = Field(default=None, ge=1)
    """Calls at once. Default: 8 for a litellm model, 1 for a function (it may not be thread-safe)."""
    timeout_s: float = Field(default=120.0, gt=0.0)
    """Seconds that one attempt may take."""
    total_timeout_s: float = Field(default=300.0, gt=0.0)
    """Seconds that one call may take with all its retries."""
    max_example_tokens: int = Field(default=2000, ge=16)
    """Longest excerpt of a question, a response or an answer in a reflection prompt, in tokens."""
    meta_prompts: dict[str, Path] = {}
    """Files in place of the proposers' own meta-prompts, by the proposer's name."""
    max_calls: int | None = Field(default=None, ge=1)
    """Budget of the whole run: calls to the reflection model. When a budget is spent, evolution stops
    and training goes on with what it has."""
    max_total_tokens: int | None = Field(default=None, ge=1)
    """Budget of the whole run: tokens, of prompts and replies together."""
    max_usd: float | None = Field(default=None, gt=0.0)
    """Budget of the whole run: US dollars, by litellm's price list; refused for a model without a price."""
    max_seconds: float | None = Field(default=None, gt=0.0)
    """Budget of the whole run: seconds during which the reflection model was being asked."""
    warn_at: float = Field(default=0.8, gt=0.0, le=1.0)
    """The share of a budget from which one warning is given."""

    @model_validator(mode="after")
    def _one_source(self) -> ReflectionSettings:
        if self.model is not None and self.function is not None:
            raise ValueError("reflection.model and reflection.function exclude each other: set one")
        if self.function is not None:
            idle = _OF_A_MODEL | _OF_A_REMOTE_MODEL | {"max_total_tokens"}
            self._refuse(idle - {"total_timeout_s"}, "a reflection.function")
        if "warn_at" in self.model_fields_set and not self.has_budget:
            raise ValueError(
                "reflection.warn_at has no effect without a budget; set max_calls, "
                "max_total_tokens, max_usd or max_seconds"
            )
        if self.model == "self":
            self._refuse({"concurrency"} | _OF_A_REMOTE_MODEL, 'reflection.model = "self"')
        return self

    @property
    def has_budget(self) -> bool:
        return any((self.max_calls, self.max_total_tokens, self.max_usd, self.max_seconds))

    def _refuse(self, names: set[str], where: str) -> None:
        for name in sorted(names & self.model_fields_set):
            raise ValueError(f"reflection.{name} has no effect with {where}; leave it out")


class GateSettings(Section):
    """What a candidate must satisfy before any rollout is spent on it."""

    max_candidate_tokens: int = Field(default=1024, ge=1)
    """Longest candidate, in tokens of the policy."""
    required_tags: tuple[str, ...] = ()
    """Texts that every candidate must contain."""
    leak_ngram: int = Field(default=8, ge=2)
    """A candidate must not share so many consecutive words with a question that its proposer saw or
    that it is tried on."""
    leak_truth_chars: int = Field(default=12, ge=1)
    """A ground truth of such a question, if it has so many characters, must not stand in a candidate."""


_OF_THE_BUILTIN_SEARCH = {"beam_width", "front_fill", "max_barren_waves", "overspend"}


class P2OSettings(Section):
    """P2O (arXiv 2603.21877)."""

    proposer: str = "propose_improvement"
    """The name of a registered proposer."""
    tau: float = 0.2
    """`τ` of eq. 4: a question is hard if its group's mean reward is below it. At K = 6 the default
    means all fail, or one success, as the authors ran it."""
    search_every: Literal["epoch"] | int = "epoch"
    """Search at the end of every epoch (Algorithm 1), or every so many weight updates."""
    search_budget: int = Field(default=11_000, ge=1)
    """`C_total` of Algorithm 3: policy rollouts per search (what the authors ran)."""
    overspend: Overspend = "never"
    """`never`: a wave holds what the budget can pay in full; `literal`: the paper's test between waves."""
    beam_width: int = Field(default=16, ge=1)
    """`W` of Algorithm 4."""
    front_fill: bool = False
    """Fill a front smaller than `W` with further proposals from the same parents (not in the paper)."""
    minibatch_size: int = Field(default=3, ge=1)
    """`B` of Algorithm 3: questions per proposal."""
    dev_size: int = Field(default=300, ge=1)
    """Questions on which accepted templates are scored; at most half of the hard ones."""
    min_hard: int = Field(default=2, ge=2)
    """Fewer hard questions than this: no search (the authors' code uses 100)."""
    solved_at: float = 1.0
    """A reward from which a question counts as solved: `C(z)` of Algorithm 2."""
    minibatch_temperature: float = Field(default=0.6, ge=0.0)
    """Sampling temperature of the minibatch rollouts."""
    dev_temperature: float = Field(default=0.0, ge=0.0)
    """Sampling temperature of the dev rollouts; 0 is greedy."""
    group_templates: Literal["diverse", "same"] = "diverse"
    """`same` gives all rollouts of a group one template: the ablation of Table 2."""
    search_backend: Literal["builtin", "gepa"] = "builtin"
    """`gepa` leaves the search to the package of that name, for comparison (extra `gepa`)."""
    max_barren_waves: int = Field(default=8, ge=1)
    """End a search after so many waves in a row that gave no candidate to try (not in the paper)."""

    @field_validator("tau")
    @classmethod
    def _tau_above_zero(cls, tau: float) -> float:
        if not tau > 0:
            raise ValueError(
                "must be greater than 0, else no question can be hard; for example 0.2"
            )
        return tau

    @field_validator("search_every")
    @classmethod
    def _positive_steps(cls, every: Any) -> Any:
        if every != "epoch" and every < 1:
            raise ValueError('must be "epoch" or a number of steps of at least 1')
        return every

    @model_validator(mode="after")
    def _settings_of_the_backend(self) -> P2OSettings:
        ignored = _OF_THE_BUILTIN_SEARCH & self.model_fields_set
        if self.search_backend == "gepa" and ignored:
            raise ValueError(
                f'p2o.{min(ignored)} has no effect with search_backend = "gepa"; leave it out '
                "(and any preset that sets it)"
            )
        return self


class InspoSettings(Section):
    """INSPO (arXiv 2512.01945). `t` counts the weight updates that used a new generation round."""

    instruction: str | None = None
    """The instruction to start from. Default: the system message that all questions share."""
    initial_population: tuple[str, ...] = ()
    """The instructions to start from, in place of one instruction and its paraphrases."""
    paraphrase: bool = True
    """Whether one instruction is joined by paraphrases of it, up to `population_size`."""
    population_size: int = Field(default=7, ge=2)
    """`N_P`."""
    parents: int = Field(default=1, ge=1)
    """`N_parent`: survivors of pruning, and parents of an evolution."""
    selection_temperature: float = Field(default=0.2, gt=0.0)
    """`τ_s` of eq. 4."""
    window: int = Field(default=5, ge=1)
    """`n` of eq. 6: an instruction's weight is the mean of its last so many entries."""
    prune: bool = True
    """Off: nothing is ever dropped, the population of Fig. 3 without pruning. An ablation."""
    prune_every: int = Field(default=5, ge=1)
    """`K_p`: prune every so many steps."""
    prune_unsampled: bool = False
    """Whether an instruction may be pruned before it was ever sampled (the paper is silent)."""
    evolution: Literal["online", "before", "after", "off"] = "online"
    """When instructions evolve: during training, or as often before or after it against the policy
    of that moment (Fig. 3), or never."""
    evolve_every: int = Field(default=15, ge=1)
    """`K_e`: evolve every so many steps."""
    evolve_until: int = Field(default=150, ge=1)
    """`T_e`: the last evolution is before this step."""
    proposer: str = "reflection"
    """The name of a registered proposer."""
    failures_per_reflection: int = Field(default=4, ge=1)
    """Failing trajectories that one call of the proposer gets."""
    candidates_per_call: int = Field(default=6, ge=1)
    """Candidates that one call is asked for."""
    rounds: int = Field(default=5, ge=1)
    """Rounds of generating and verifying that one evolution may take."""
    verify: bool = True
    """Off: every candidate that passes the gates joins while there is room. An ablation."""
    verify_size: int = Field(default=200, ge=1)
    """`|D_B|`: questions on which candidates are verified."""
    top_n: int = Field(default=3, ge=1)
    """At most so many verified candidates join in one round (the paper gives no number)."""
    child_weight: Literal["verified", "zero"] = "verified"
    """What a new instruction weighs before its first window entry: `verified` is its parent's weight
    plus the difference that verification measured; `zero` is Algorithm 1, line 17."""
    keep_tags: bool = True
    """Whether every candidate must keep the XML tags of its parent."""
    solved_at: float = 1.0
    """A reward below this is a failure."""
    validation_instruction: Literal["best", "none"] = "best"
    """What the host's evaluation runs under."""
    reflection: Literal["blocking", "overlapped"] = "blocking"
    """`overlapped`: training goes on while the proposer is at work."""
    overlap_steps: int | None = Field(default=None, ge=1)
    """With `overlapped`: a reply is used so many steps after its request, never earlier. Default: 1."""
    buffer_rollouts: int = Field(default=100_000, ge=1)
    """The replay buffer's bound, in rollouts."""
    buffer_bytes: int = Field(default=16_000_000, ge=1)
    """The replay buffer's bound, in bytes of failed completions."""

    @model_validator(mode="after")
    def _combinations(self) -> InspoSettings:
        if self.parents >= self.population_size:
            raise ValueError(
                f"inspo.parents = {self.parents} must be smaller than inspo.population_size = "
                f"{self.population_size}, else there is no place for new instructions"
            )
        if self.instruction is not None and self.initial_population:
            raise ValueError(
                "inspo.instruction and inspo.initial_population exclude each other: set one"
            )
        if len(self.initial_population) > self.population_size:
            raise ValueError(
                f"inspo.initial_population holds {len(self.initial_population)} instructions, more "
                f"than inspo.population_size = {self.population_size}"
            )
        if "paraphrase" in self.model_fields_set and self.paraphrase and self.initial_population:
            raise ValueError(
                "inspo.paraphrase has no effect with inspo.initial_population; leave one of them out"
            )
        if self.prune_unsampled and not self.prune:
            raise ValueError("inspo.prune_unsampled has no effect with inspo.prune = false")
        if self.evolution != "off" and self.evolve_until <= self.evolve_every:
            raise ValueError(
                f"with inspo.evolve_until = {self.evolve_until} and inspo.evolve_every = "
                f"{self.evolve_every} there is never an evolution; raise evolve_until, or set "
                'inspo.evolution = "off"'
            )
        if self.reflection == "overlapped":
            self._check_overlap()
        elif self.overlap_steps is not None:
            raise ValueError(
                'inspo.overlap_steps has no effect unless inspo.reflection = "overlapped"'
            )
        return self

    def _check_overlap(self) -> None:
        if self.evolution != "online":
            raise ValueError(
                'inspo.reflection = "overlapped" has no effect unless inspo.evolution = "online"'
            )
        steps = self.overlap_steps or 1
        if steps >= self.evolve_every:
            raise ValueError(
                f"inspo.overlap_steps = {steps} must be smaller than inspo.evolve_every = "
                f"{self.evolve_every}, else a reply comes after the next request"
            )
