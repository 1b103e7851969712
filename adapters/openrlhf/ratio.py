"""Which old log-probs distilled rows get: `distill_ratio`, in OpenRLHF's experience maker.

It computes old log-probs, reference log-probs and values from the token sequences, which are those of
the question already. The sampler's log-probs are under the template; with `distill_forward` the actor
computes log-probs there once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from torch import Tensor

from prompt_coevo.adapters.openrlhf.drift import ADVICE
from prompt_coevo.adapters.openrlhf.second_pass import ROLLED_OUT, Rows, after_rollout_prompts
from prompt_coevo.doors.ratio_tensors import distil_ratio, template_effect
from prompt_coevo.doors.sent_settings import received
from prompt_coevo.errors import HostError
from prompt_coevo.settings import Settings

DISTILLED: Final = "coevo_distilled"
"""The entry of an Experience's info that says which rows were sampled under a template."""


class CoevoExperienceMaker(RemoteExperienceMaker):
    """Lets no correction for the sampler see the template."""

    template_effect: float | None = None
    """With `distill_forward`: what the templates of the last batch did to the policy, if it had any."""

    def make_experience_batch(self, rollout_samples: list[Experience]) -> list[Experience]:
        """The band's mask comes last: returns are those of whole responses."""
        self._masks: list[Tensor | None] = []
        experiences: list[Experience] = super().make_experience_batch(rollout_samples)
        for experience, keep in zip(experiences, self._masks, strict=True):
            if keep is not None:
                experience.action_mask = experience.action_mask * keep
        return experiences

    def make_experience(self, samples_list: list[Experience]) -> list[Experience]:
        settings = received(self.args.coevo)
        entries: list[Tensor] = []
        if settings.distill_forward:
            entries = [_entry(sample, ROLLED_OUT) for sample in samples_list]
            for sample in samples_list:
                del sample.info[ROLLED_OUT]  # OpenRLHF takes all that is left for metrics
        experiences: list[Experience] = super().make_experience(samples_list)
        under: list[Tensor | None] = [None] * len(experiences)
        if any(bool(rows.any()) for rows in entries):
            pad_id = self.tokenizer.pad_token_id
            under = [*after_rollout_prompts(experiences, entries, pad_id, self._forward)]
            self.template_effect = _effect(experiences, under)
        pairs = zip(experiences, under, strict=True)
        self._masks = [_apply(experience, settings, after) for experience, after in pairs]
        return experiences

    def _forward(self, batches: list[Rows]) -> list[Tensor]:
        train, ds = self.args.train, self.args.ds
        references = self._dispatch_forward(
            self.actor_model_group,
            train.colocate_all or train.colocate_actor_ref,
            sequences=[batch.sequences for batch in batches],
            action_mask=[batch.action_mask for batch in batches],
            attention_mask=[batch.attention_mask for batch in batches],
        )
        copies = ds.ring_attn_size * ds.tensor_parallel_size
        log_probs: list[Tensor] = self._flatten_results(references, copies)
        return log_probs


def _effect(experiences: Sequence[Experience], under: Sequence[Tensor | None]) -> float | None:
    """What the templates of these rows do to the policy, the mean over their tokens."""
    total, tokens = 0.0, 0
    for experience, after in zip(experiences, under, strict=True):
        if after is not None:
            counted = experience.action_mask * _distilled(experience)
            found = template_effect(experience.action_log_probs, after, counted)
            total, tokens = total + found[0], tokens + found[1]
    return total / tokens if tokens else None


def _distilled(experience: Experience) -> Tensor:
    """Which rows ran under a template, (B, 1). Raises HostError if that is not known."""
    return (_entry(experience, DISTILLED) > 0).unsqueeze(-1)


def _entry(experience: Experience, name: str) -> Tensor:
    if name not in experience.info:
        raise HostError(
            f"OpenRLHF has lost the entry {name!r} of an Experience's info, which says whose log-probs are "
            f"under a template; {ADVICE}"
        )
    found: Tensor = experience.info[name]
    return found


def _apply(
    experience: Experience, settings: Settings, under: Tensor | None = None
) -> Tensor | None:
    """Set the log-probs of distilled rows. Returns the tokens that stay in the loss, None for all.

    `under`: log-probs after what rows were sampled under, by the trainer, with `distill_forward`.
    """
    if experience.rollout_log_probs is None:
        return None
    distilled = _distilled(experience)
    on_question = experience.action_log_probs
    by_sampler = experience.rollout_log_probs.to(on_question.dtype)
    corrected = distil_ratio(
        settings.distill_ratio,
        settings.distill_band,
        on_question=on_question,
        on_rollout_prompt=by_sampler if under is None else under,
        distilled=distilled,
        by_sampler=by_sampler,
        corrects=under is not None,
    )
    if corrected.old is not None:
        experience.action_log_probs = corrected.old
    if corrected.sampler is not None:
        experience.rollout_log_probs = corrected.sampler
    return None if corrected.keep is None else corrected.keep.to(experience.action_mask.dtype)
