"""Which old log-probs distilled rows get: `distill_ratio`, in OpenRLHF's experience maker.

It computes old log-probs, reference log-probs and values from the token sequences, which are those of
the question already. The sampler's log-probs are under the template.
"""

from __future__ import annotations

from typing import Final

from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from torch import Tensor

from prompt_coevo.adapters.openrlhf.drift import ADVICE
from prompt_coevo.doors.ratio_tensors import distil_ratio
from prompt_coevo.doors.sent_settings import received
from prompt_coevo.errors import HostError
from prompt_coevo.settings import Settings

DISTILLED: Final = "coevo_distilled"
"""The entry of an Experience's info that says which rows were sampled under a template."""


class CoevoExperienceMaker(RemoteExperienceMaker):
    """Lets no correction for the sampler see the template."""

    def make_experience_batch(self, rollout_samples: list[Experience]) -> list[Experience]:
        """The band's mask comes last: returns are those of whole responses."""
        self._masks: list[Tensor | None] = []
        experiences: list[Experience] = super().make_experience_batch(rollout_samples)
        for experience, keep in zip(experiences, self._masks, strict=True):
            if keep is not None:
                experience.action_mask = experience.action_mask * keep
        return experiences

    def make_experience(self, samples_list: list[Experience]) -> list[Experience]:
        experiences: list[Experience] = super().make_experience(samples_list)
        settings = received(self.args.coevo)
        self._masks = [_apply(experience, settings) for experience in experiences]
        return experiences


def _apply(experience: Experience, settings: Settings) -> Tensor | None:
    """Set the log-probs of distilled rows. Returns the tokens that stay in the loss, None for all.

    Raises HostError if it is not known which these are.
    """
    if experience.rollout_log_probs is None:
        return None
    if DISTILLED not in experience.info:
        raise HostError(
            f"OpenRLHF has lost the entry {DISTILLED!r} of an Experience's info, which says whose "
            f"log-probs are under a template; {ADVICE}"
        )
    on_question = experience.action_log_probs
    corrected = distil_ratio(
        settings.distill_ratio,
        settings.distill_band,
        on_question=on_question,
        on_rollout_prompt=experience.rollout_log_probs.to(on_question.dtype),
        distilled=(experience.info[DISTILLED] > 0).unsqueeze(-1),
    )
    if corrected.old is not None:
        experience.action_log_probs = corrected.old
    if corrected.sampler is not None:
        experience.rollout_log_probs = corrected.sampler
    return None if corrected.keep is None else corrected.keep.to(experience.action_mask.dtype)
