"""Check how steps and episodes are counted."""

from __future__ import annotations

from prompt_coevo.adapters.openrlhf.stateful_loader import Progress


def test_an_episode_with_a_short_last_batch() -> None:
    progress = Progress()
    progress.generated(prompts=4, trained=True, exhausted=False)
    assert (progress.step_due, progress.epoch_due) == (True, False)
    progress.generated(prompts=3, trained=True, exhausted=True)
    assert (progress.batches, progress.epoch_due) == (2, True)


def test_an_episode_that_divides_evenly_ends_once() -> None:
    progress = Progress()
    progress.generated(prompts=4, trained=True, exhausted=False)
    progress.generated(prompts=0, trained=False, exhausted=True)
    assert progress.epoch_due
    progress.epoch_due = False
    progress.generated(
        prompts=0, trained=False, exhausted=True
    )  # a run resumed right there sees it again
    assert not progress.epoch_due


def test_an_episode_that_dynamic_filtering_left_nothing_of_ends_too() -> None:
    progress = Progress()
    progress.generated(prompts=8, trained=False, exhausted=True)
    assert (progress.batches, progress.step_due, progress.epoch_due) == (0, False, True)


def test_it_survives_a_checkpoint() -> None:
    progress = Progress(batches=3, prompts_in_episode=1, step_due=True)
    assert Progress(**progress.to_json()) == progress
