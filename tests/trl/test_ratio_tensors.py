"""The rules of `distill_ratio` by hand. Two rows of three tokens; the first is distilled."""

from __future__ import annotations

import pytest
import torch

from prompt_coevo.doors.ratio_tensors import band_mask, distil_ratio, left_pad, template_effect

BAND = (0.01, 10.0)
ON_QUESTION = torch.tensor([[-1.0, -6.0, -0.5], [-1.0, -6.0, -0.5]])
ON_ROLLOUT_PROMPT = torch.tensor([[-1.5, -1.0, -4.0], [-1.5, -1.0, -4.0]])
# Their ratios are e^0.5 = 1.65, e^-5 = 0.0067 (below the band) and e^3.5 = 33 (above it).
DISTILLED = torch.tensor([[True], [False]])


def test_clean_hides_the_template_from_corrections_and_leaves_the_rest() -> None:
    new = distil_ratio(
        "clean",
        BAND,
        on_question=ON_QUESTION,
        on_rollout_prompt=ON_ROLLOUT_PROMPT,
        distilled=DISTILLED,
    )
    assert new.old is None
    assert new.keep is None
    assert new.sampler is not None
    assert new.sampler.tolist() == [[-1.0, -6.0, -0.5], [-1.5, -1.0, -4.0]]


def test_band_is_clean_without_the_tokens_outside_it() -> None:
    new = distil_ratio(
        "band",
        BAND,
        on_question=ON_QUESTION,
        on_rollout_prompt=ON_ROLLOUT_PROMPT,
        distilled=DISTILLED,
    )
    assert new.old is None
    assert new.sampler is not None
    assert new.sampler.tolist() == [[-1.0, -6.0, -0.5], [-1.5, -1.0, -4.0]]
    assert new.keep is not None
    assert new.keep.tolist() == [[True, False, False], [True, True, True]]


def test_templated_takes_old_log_probs_after_the_template_in_distilled_rows() -> None:
    new = distil_ratio(
        "templated",
        BAND,
        on_question=ON_QUESTION,
        on_rollout_prompt=ON_ROLLOUT_PROMPT,
        distilled=DISTILLED,
    )
    assert new.old is not None
    assert new.old.tolist() == [[-1.5, -1.0, -4.0], [-1.0, -6.0, -0.5]]
    assert new.sampler is None
    assert new.keep is None


@pytest.mark.parametrize("mode", ["clean", "band"])
def test_the_samplers_own_log_probs_may_be_others_than_those_of_the_band(mode: str) -> None:
    """A host that computes log-probs after `x~` itself has the sampler's, which differ a little, too."""
    new = distil_ratio(
        mode,  # type: ignore[arg-type]
        BAND,
        on_question=ON_QUESTION,
        on_rollout_prompt=ON_QUESTION,
        distilled=DISTILLED,
        by_sampler=ON_ROLLOUT_PROMPT,
    )
    assert new.sampler is not None
    assert new.sampler.tolist() == [[-1.0, -6.0, -0.5], [-1.5, -1.0, -4.0]]
    if mode == "band":
        assert new.keep is not None
        assert new.keep.all()


def test_rows_that_are_all_distilled_may_be_flat() -> None:
    """As in the values of a jagged tensor."""
    new = distil_ratio(
        "band",
        BAND,
        on_question=ON_QUESTION[0],
        on_rollout_prompt=ON_ROLLOUT_PROMPT[0],
        distilled=torch.tensor(True),
    )
    assert new.sampler is not None
    assert new.sampler.tolist() == [-1.0, -6.0, -0.5]
    assert new.keep is not None
    assert new.keep.tolist() == [True, False, False]


def test_the_inputs_are_left_as_they_were() -> None:
    before = ON_QUESTION.clone(), ON_ROLLOUT_PROMPT.clone()
    for mode in ("clean", "band", "templated"):
        distil_ratio(
            mode,  # type: ignore[arg-type]
            BAND,
            on_question=ON_QUESTION,
            on_rollout_prompt=ON_ROLLOUT_PROMPT,
            distilled=DISTILLED,
        )
    assert torch.equal(ON_QUESTION, before[0])
    assert torch.equal(ON_ROLLOUT_PROMPT, before[1])


def test_the_band_by_hand() -> None:
    # π(y|x) / π(y|x~) = 0.005, 0.01, 1, 10, 20
    on_rollout = torch.zeros(1, 5)
    on_question = torch.tensor([[0.005, 0.01000001, 1.0, 9.9999, 20.0]]).log()
    assert band_mask(on_question, on_rollout, 0.01, 10.0).tolist() == [
        [False, True, True, True, False]
    ]


def test_equal_logps_are_inside_any_band() -> None:
    logps = torch.randn(3, 4)
    assert band_mask(logps, logps, 0.99, 1.01).all()


def test_left_padding() -> None:
    ids, mask = left_pad([[1, 2, 3], [4]], pad_id=9)
    assert ids.tolist() == [[1, 2, 3], [9, 9, 4]]
    assert mask.tolist() == [[1, 1, 1], [0, 0, 1]]


@pytest.mark.parametrize("mode", ["clean", "band"])
def test_the_trainers_own_after_the_template_leave_the_samplers_part(mode: str) -> None:
    """What corrections see of a distilled row is the difference between trainer and sampler alone."""
    sampler = ON_ROLLOUT_PROMPT + 0.25
    new = distil_ratio(
        mode,  # type: ignore[arg-type]
        BAND,
        on_question=ON_QUESTION,
        on_rollout_prompt=ON_ROLLOUT_PROMPT,
        distilled=DISTILLED,
        by_sampler=sampler,
        corrects=True,
    )
    assert new.sampler is not None
    assert (ON_QUESTION - new.sampler)[0].tolist() == [-0.25] * 3
    assert new.sampler[1].tolist() == sampler[1].tolist()


def test_what_a_template_does_is_counted_over_some_tokens() -> None:
    counted = torch.tensor([[1, 0, 1], [0, 0, 0]])
    assert template_effect(ON_QUESTION, ON_ROLLOUT_PROMPT, counted) == (-0.5 - 3.5, 2)
