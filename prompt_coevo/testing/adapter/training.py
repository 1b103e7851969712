"""Laws about the loss: its prompts, positions and log-probs."""

from __future__ import annotations

from collections.abc import Sequence

from prompt_coevo.testing.adapter.laboratory import Laboratory
from prompt_coevo.testing.adapter.law import law
from prompt_coevo.types import Assignment

_TOLERANCE = 1e-3
_NOTICED = 0.1  # nats of a log-prob


@law()
def the_loss_is_on_the_train_prompt(lab: Laboratory) -> None:
    """A trained sequence is the train prompt, with its instruction and without a distilled template,
    followed by the sampled completion."""
    run, seen = lab.main, set()
    for row, owners in run.trained():
        assert owners, (
            f"the loss of update {row.update} has a row of {len(row.ids)} tokens that is no planned "
            "rollout's train_prompt followed by its completion"
        )
        seen |= {_kind(assignment) for _, assignment in owners}
    planned = {_kind(one) for plan in run.plan.values() for one in plan}
    assert seen == planned, f"members of the kinds {planned - seen} were never trained on"


@law()
def the_loss_covers_the_completion(lab: Laboratory) -> None:
    """The log-probs in the loss are those of the completion's tokens, each once, wherever the trained
    prompt ends."""
    for row, owners in lab.main.trained():
        expected = [list(range(start, len(row.ids))) for start, _ in owners]
        assert not owners or list(row.positions) in expected, (
            f"the loss of update {row.update} covers the places {_brief(row.positions)} of a row "
            f"whose completion has {_brief(expected[0])}"
        )
    assert any(row.positions for row in lab.main.record.trained), "no token is in the loss"


@law("log-probs")
def every_log_prob_is_on_the_trained_prompt(lab: Laboratory) -> None:
    """All log-probs in the loss (new, old, reference) equal those of a forward pass on the trained
    prompt."""
    noticed = 0.0
    for row, owners in lab.main.trained():
        for name, values in row.log_probs.items():
            off = _distance(values.used, values.forward)
            assert off <= _TOLERANCE, (
                f"the {name} log-probs of update {row.update} are up to {off:.3f} away from a forward "
                "pass on the trained prompt"
            )
        if any(assignment.distilled for _, assignment in owners) and "new" in row.log_probs:
            new = row.log_probs["new"]
            noticed = max(noticed, _distance(new.forward, new.placed))
    _check_noticed(noticed)


def _check_noticed(noticed: float) -> None:
    assert noticed > _NOTICED, (
        f"a template moves no log-prob by more than {noticed:.3f}, so this proves nothing: give the "
        "harness other texts or another model"
    )


def _kind(one: Assignment) -> tuple[bool, bool, bool]:
    return one.instruction is not None, one.templated, one.distilled


def _distance(some: Sequence[float], others: Sequence[float]) -> float:
    return max((abs(a - b) for a, b in zip(some, others, strict=True)), default=0.0)


def _brief(places: Sequence[int]) -> str:
    return f"{places[0]} to {places[-1]}" if places else "none"
