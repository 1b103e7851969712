from __future__ import annotations

import torch

from prompt_coevo.doors.ratio_tensors import band_mask, left_pad


def test_left_padding() -> None:
    ids, mask = left_pad([[1, 2, 3], [4]], pad_id=9)
    assert ids.tolist() == [[1, 2, 3], [9, 9, 4]]
    assert mask.tolist() == [[1, 1, 1], [0, 0, 1]]


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
