"""OpenRLHF's experience maker, and which old log-probs distilled rows get: `distill_ratio`.

It computes old log-probs, reference log-probs and values from the token sequences, which are those of
the question already. The sampler's log-probs are under the template.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

from prompt_coevo.adapters.openrlhf.resolved import settings_of
from prompt_coevo.adapters.openrlhf.samples import DISTILLED
from prompt_coevo.doors.ratio_tensors import band_mask
from prompt_coevo.settings import Settings


class CoevoExperienceMaker(RemoteExperienceMaker):
    """Lets no correction for the sampler see the template."""

    def make_experience_batch(self, rollout_samples: Any) -> list[Any]:
        """The band's mask comes last: returns are those of whole responses."""
        self._masks: list[Any] = []
        experiences: list[Any] = super().make_experience_batch(rollout_samples)
        for experience, keep in zip(experiences, self._masks, strict=True):
            if keep is not None:
                experience.action_mask = experience.action_mask * keep
        return experiences

    def make_experience(self, samples_list: list[Any]) -> list[Any]:
        experiences: list[Any] = super().make_experience(samples_list)
        self._masks = [
            None if experience.rollout_log_probs is None else _apply(experience, self._settings)
            for experience in experiences
        ]
        return experiences

    @cached_property
    def _settings(self) -> Settings:
        return settings_of(self.args.coevo)


def _apply(experience: Any, settings: Settings) -> Any:
    """Set the log-probs of distilled rows. Returns the tokens that stay in the loss, None for all."""
    rows = (experience.info[DISTILLED] > 0).unsqueeze(-1)
    on_question = experience.action_log_probs
    by_sampler = experience.rollout_log_probs.to(on_question.dtype)
    if settings.distill_ratio == "templated":
        experience.action_log_probs = torch.where(rows, by_sampler, on_question)
        return None
    experience.rollout_log_probs = torch.where(rows, on_question, by_sampler)
    if settings.distill_ratio == "clean":
        return None
    keep = band_mask(on_question, by_sampler, *settings.distill_band) | ~rows
    return keep.to(experience.action_mask.dtype)
