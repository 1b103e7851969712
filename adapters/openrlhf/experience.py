"""OpenRLHF's experience maker, and which old log-probs distilled rows get: `distill_ratio`.

It computes old log-probs, reference log-probs and values from the token sequences, which are those of
the question already. The sampler's log-probs are under the template.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from prompt_coevo.adapters.openrlhf.samples import DISTILLED

from prompt_coevo.distill_tensors import band_mask
from prompt_coevo.settings import Settings


class CoevoExperienceMaker(RemoteExperienceMaker):
    """Lets no correction for the sampler see the template."""

    def make_experience(self, samples_list: list[Any]) -> list[Any]:
        experiences: list[Any] = super().make_experience(samples_list)
        for experience in experiences:
            if experience.rollout_log_probs is not None:
                _apply(experience, self._settings)
        return experiences

    @cached_property
    def _settings(self) -> Settings:
        return Settings(**self.args.coevo)


def _apply(experience: Any, settings: Settings) -> None:
    rows = (experience.info[DISTILLED] > 0).unsqueeze(-1)
    on_question = experience.action_log_probs
    by_sampler = experience.rollout_log_probs.to(on_question.dtype)
    if settings.distill_ratio == "templated":
        experience.action_log_probs = torch.where(rows, by_sampler, on_question)
        return
    if settings.distill_ratio == "band":
        keep = band_mask(on_question, by_sampler, *settings.distill_band) | ~rows
        experience.action_mask = experience.action_mask * keep.to(experience.action_mask.dtype)
    experience.rollout_log_probs = torch.where(rows, on_question, by_sampler)
