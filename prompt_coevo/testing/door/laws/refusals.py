"""What a door refuses, before training and in one sentence."""

from __future__ import annotations

from dataclasses import replace

from prompt_coevo.errors import CoevoError, StateError
from prompt_coevo.testing.door.job import with_settings
from prompt_coevo.testing.door.laboratory import Laboratory
from prompt_coevo.testing.door.laws.law import law
from prompt_coevo.testing.door.laws.training import check_templated
from prompt_coevo.testing.door.run import expect

_LONGEST = 500  # characters


@law()
def two_questions_with_one_id_are_refused(laboratory: Laboratory) -> None:
    """A dataset in which one id stands for two different questions is refused in one sentence."""
    first, second, *others = laboratory.job.rows
    rows = [first, {**second, "id": first["id"]}, *others]
    job = replace(laboratory.job, rows=rows)
    _check_sentence(laboratory.refused("two_questions_with_one_id", job))


@law()
def an_unreadable_state_is_refused(laboratory: Laboratory) -> None:
    """A checkpoint whose state another version wrote is refused in one sentence, not passed over."""
    start = min(laboratory.main.record.checkpoints)
    copy = laboratory.copy_of(laboratory.checkpoint(start), "unreadable")
    laboratory.door.edit_state(copy, lambda state: {**state, "schema": 99})
    error = laboratory.refused("an_unreadable_state", replace(laboratory.job, resume_from=copy))
    expect(isinstance(error, StateError), f"an unreadable state is refused with {error!r}")
    _check_sentence(error)


@law("log-probs")
def a_ratio_is_honoured_or_refused(laboratory: Laboratory) -> None:
    """`distill_ratio = "templated"` is done, with the sampler's own old log-probs, or refused in one
    sentence; never passed over."""
    job = replace(with_settings(laboratory.job, distill_ratio="templated"), evaluates=False)
    try:
        run = laboratory.try_run("templated", job)
    except CoevoError as error:
        _check_sentence(error)
        return
    check_templated(run)


def _check_sentence(error: CoevoError) -> None:
    text = str(error)
    expect(
        "\n" not in text and 20 < len(text) < _LONGEST,
        f"a refusal must be one sentence that says what is wrong and what to do, but is {text!r}",
    )
