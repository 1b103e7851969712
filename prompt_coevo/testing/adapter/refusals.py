"""Laws about refusals: before training, in one sentence."""

from __future__ import annotations

from dataclasses import replace

from prompt_coevo.errors import CoevoError, StateError
from prompt_coevo.testing.adapter.job import Job, Row
from prompt_coevo.testing.adapter.laboratory import Laboratory
from prompt_coevo.testing.adapter.law import law

_LONGEST = 500  # characters


@law()
def two_questions_with_one_id_are_refused(lab: Laboratory) -> None:
    """A dataset in which one id stands for two different questions is refused in one sentence."""
    first, second, *others = lab.job.rows
    rows: list[Row] = [first, {**second, "id": first["id"]}, *others]
    _refused(lab, "two_questions_with_one_id", replace(lab.job, rows=rows))


@law()
def an_unreadable_state_is_refused(lab: Laboratory) -> None:
    """A checkpoint whose state another version wrote is refused in one sentence, not ignored."""
    start = min(lab.main.record.checkpoints)
    copy = lab.copy_of(lab.checkpoint(start), "unreadable")
    lab.adapter.edit_state(copy, lambda state: {**state, "schema": 99})
    error = _refused(lab, "an_unreadable_state", replace(lab.job, resume_from=copy))
    assert isinstance(error, StateError), f"an unreadable state is refused with {error!r}"


def _refused(lab: Laboratory, name: str, job: Job) -> CoevoError:
    """Run a job that must be refused, check that the refusal is one sentence, and return it."""
    try:
        lab.try_run(name, job)
    except CoevoError as error:
        _check_sentence(error)
        return error
    told = name.replace("_", " ")
    raise AssertionError(f"the adapter did its work with {told}, which it must refuse")


def _check_sentence(error: CoevoError) -> None:
    text = str(error)
    assert "\n" not in text, f"a refusal must be one sentence, but is {text!r}"
    assert 20 < len(text) < _LONGEST, f"a refusal says what is wrong and what to do, not {text!r}"
