"""Check the rules for log-probs of distilled rows by hand, on two rows of three tokens; the first is
distilled."""

from __future__ import annotations

import torch

from prompt_coevo.adapters.common.ratio_tensors import left_pad, template_effect, without_template

ON_QUESTION = torch.tensor([[-1.0, -6.0, -0.5], [-1.0, -6.0, -0.5]])
ON_ROLLOUT_PROMPT = torch.tensor([[-1.5, -1.0, -4.0], [-1.5, -1.0, -4.0]])
DISTILLED = torch.tensor([[True], [False]])


def test_the_template_is_hidden_in_distilled_rows_alone() -> None:
    found = without_template(ON_QUESTION, ON_ROLLOUT_PROMPT, DISTILLED)
    assert found.tolist() == [[-1.0, -6.0, -0.5], [-1.5, -1.0, -4.0]]


def test_rows_that_are_all_distilled_may_be_flat() -> None:
    """As in the values of a jagged tensor."""
    found = without_template(ON_QUESTION[0], ON_ROLLOUT_PROMPT[0], torch.tensor(True))
    assert found.tolist() == [-1.0, -6.0, -0.5]


def test_the_inputs_are_left_as_they_were() -> None:
    before = ON_QUESTION.clone(), ON_ROLLOUT_PROMPT.clone()
    for after in (None, ON_ROLLOUT_PROMPT + 0.5):
        without_template(ON_QUESTION, ON_ROLLOUT_PROMPT, DISTILLED, after)
    assert torch.equal(ON_QUESTION, before[0])
    assert torch.equal(ON_ROLLOUT_PROMPT, before[1])


def test_left_padding() -> None:
    ids, mask = left_pad([[1, 2, 3], [4]], pad_id=9)
    assert ids.tolist() == [[1, 2, 3], [9, 9, 4]]
    assert mask.tolist() == [[1, 1, 1], [0, 0, 1]]


def test_the_trainers_own_after_the_template_leave_the_samplers_part() -> None:
    """For a distilled row, corrections see only the difference between trainer and sampler."""
    sampler = ON_ROLLOUT_PROMPT + 0.25
    found = without_template(ON_QUESTION, sampler, DISTILLED, ON_ROLLOUT_PROMPT)
    assert (ON_QUESTION - found)[0].tolist() == [-0.25] * 3
    assert found[1].tolist() == sampler[1].tolist()


def test_what_a_template_does_is_counted_over_some_tokens() -> None:
    counted = torch.tensor([[1, 0, 1], [0, 0, 0]])
    assert template_effect(ON_QUESTION, ON_ROLLOUT_PROMPT, counted) == (-0.5 - 3.5, 2)
