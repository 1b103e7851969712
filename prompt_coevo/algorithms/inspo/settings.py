"""The section `inspo`. The defaults are the paper's values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from prompt_coevo.settings.section import Section, switch
from prompt_coevo.thresholds import in_single_precision

if TYPE_CHECKING:
    from prompt_coevo.settings.reflection import ReflectionSettings


class InspoSettings(Section):
    """INSPO (arXiv 2512.01945). `t` counts the weight updates that used a new generation round."""

    instruction: str | None = None
    """The instruction to start from. Default: the system message that all questions share."""
    initial_population: tuple[str, ...] = ()
    """The instructions to start from, instead of one instruction and its paraphrases."""
    paraphrase: bool = True
    """Add paraphrases of the one instruction, up to `population_size`."""
    population_size: int = Field(default=7, ge=2)
    """`N_P`: instructions in a full population."""
    parents: int = Field(default=1, ge=1)
    """`N_parent`: survivors of pruning, and parents of an evolution."""
    selection_temperature: float = Field(default=0.2, gt=0.0)
    """`τ_s` of eq. 4."""
    window: int = Field(default=5, ge=1)
    """`n` of eq. 6: an instruction's weight is the mean of its last `n` entries."""
    prune: bool = True
    """`false` never drops an instruction, and a full population no longer evolves: the ablation without
    pruning of Fig. 3."""
    prune_every: int = Field(default=5, ge=1)
    """`K_p`: steps between two prunings."""
    prune_unsampled: bool = False
    """Let pruning drop instructions that were never sampled (the paper does not say)."""
    evolution: Literal["online", "before", "after", "off"] = "online"
    """When instructions evolve: during training; as many times before or after it, against the policy of
    that moment (Fig. 3); or never."""
    evolve_every: int = Field(default=15, ge=1)
    """`K_e`: steps between two evolutions."""
    evolve_until: int = Field(default=150, ge=1)
    """`T_e`: evolutions only happen before this step."""
    proposer: str = "reflection"
    """Name of a registered proposer."""
    failures_per_reflection: int = Field(default=4, ge=1)
    """Failed trajectories in one call to the proposer."""
    candidates_per_call: int = Field(default=6, ge=1)
    """Candidates requested in one call."""
    rounds: int = Field(default=5, ge=1)
    """Rounds of generating and verifying in one evolution, at most."""
    verify: Annotated[Literal["blocking", "off"], switch("blocking")] = "blocking"
    """How to verify candidates. `blocking` (or `true`): by rollouts that training waits for (the paper).
    `off` (or `false`): not at all; what passes the gates joins while there is room (an ablation)."""
    verify_size: int = Field(default=200, ge=1)
    """`|D_B|`: questions on which candidates are verified."""
    top_n: int = Field(default=3, ge=1)
    """Verified candidates that join in one round, at most (the paper gives no number)."""
    child_weight: Literal["verified", "zero"] = "verified"
    """Weight of a new instruction before its first window entry. `verified`: its parent's weight plus the
    difference measured by verification. `zero`: 0, as in Algorithm 1, line 17."""
    solved_at: float = Field(default=1.0, gt=0.0)
    """A reward below this is a failure."""
    validation_instruction: Literal["best", "none"] = "best"
    """The instruction for the trainer's evaluation."""
    reflection: Literal["blocking", "overlapped"] = "blocking"
    """`overlapped`: training continues while the proposer works."""
    overlap_steps: int | None = Field(default=None, ge=1)
    """With `overlapped`: use a reply exactly this many steps after its request. Default: 1."""

    @property
    def solved_from(self) -> float:
        """The least reward that is no failure, also where rewards are in single precision."""
        return in_single_precision(self.solved_at)

    def problems(self) -> Iterator[str]:
        yield from self._of_the_first_instructions()
        if self.parents >= self.population_size:
            yield (
                f"inspo.parents = {self.parents} must be smaller than inspo.population_size = "
                f"{self.population_size}, else there is no place for new instructions"
            )
        if self.prune_unsampled and not self.prune:
            yield "inspo.prune_unsampled has no effect with inspo.prune = false; leave it out"
        if self.evolution != "off" and self.evolve_until <= self.evolve_every:
            yield (
                f"with inspo.evolve_until = {self.evolve_until} and inspo.evolve_every = "
                f"{self.evolve_every} there is never an evolution; raise evolve_until, or set "
                'inspo.evolution = "off"'
            )
        if self.reflection == "overlapped":
            yield from self._of_the_overlap()
        elif self.overlap_steps is not None:
            yield (
                'inspo.overlap_steps has no effect unless inspo.reflection = "overlapped"; leave it out'
            )

    def _of_the_first_instructions(self) -> Iterator[str]:
        if self.instruction is not None and self.initial_population:
            yield "inspo.instruction and inspo.initial_population exclude each other: set one"
        if len(self.initial_population) > self.population_size:
            yield (
                f"inspo.initial_population holds {len(self.initial_population)} instructions, more "
                f"than inspo.population_size = {self.population_size}"
            )
        if "paraphrase" in self.model_fields_set and self.paraphrase and self.initial_population:
            yield (
                "inspo.paraphrase has no effect with inspo.initial_population; leave one of them out"
            )
        full = self._starts_full
        if not self.prune and self.evolution != "off" and full:
            yield (
                f"with inspo.prune = false {full} fill the population for good, so nothing would ever "
                "evolve; leave places open (inspo.paraphrase = false, or a larger "
                'inspo.population_size), or set inspo.evolution = "off"'
            )

    @property
    def _starts_full(self) -> str:
        """Name what fills the population when training begins; "" if nothing does."""
        if self.initial_population:
            full = len(self.initial_population) == self.population_size
            return "the instructions of inspo.initial_population" if full else ""
        return "the paraphrases" if self.paraphrase else ""

    @property
    def asks_in_background(self) -> bool:
        return self.reflection == "overlapped"

    def problems_beside(self, reflection: ReflectionSettings) -> Iterator[str]:
        if self.asks_in_background and reflection.backend_in_use == "self":
            yield (
                'inspo.reflection = "overlapped" cannot go with reflection.model = "self": it would '
                "generate while training does, with the same random state; serve the model and name it "
                "by reflection.api_base, or leave the overlap out"
            )

    def _of_the_overlap(self) -> Iterator[str]:
        if self.evolution != "online":
            yield (
                'inspo.reflection = "overlapped" has no effect unless inspo.evolution = "online"; '
                "leave it out"
            )
        steps = self.overlap_steps or 1
        if steps >= self.evolve_every:
            yield (
                f"inspo.overlap_steps = {steps} must be smaller than inspo.evolve_every = "
                f"{self.evolve_every}, else a reply comes after the next request"
            )
