"""Log-probs of distilled rows, in OpenRLHF's experience maker.

It computes old log-probs, reference log-probs and values from the token sequences, which already have the
question as prompt. The sampler's log-probs are under the template, which OpenRLHF's correction must not
see; with `distill_forward` the actor also computes log-probs under the template.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from torch import Tensor, where

from prompt_coevo.adapters.common.ratio_tensors import template_effect, without_template
from prompt_coevo.adapters.openrlhf.contract import ADVICE
from prompt_coevo.adapters.openrlhf.second_pass import ROLLED_OUT, Rows, after_rollout_prompts
from prompt_coevo.adapters.openrlhf.sent_settings import received
from prompt_coevo.errors import HostError

DISTILLED: Final = "coevo_distilled"
"""The entry of an Experience's info that marks rows sampled under a template."""


UNPUNISHED: Final = "coevo_unpunished"
"""The entry of an Experience's info that marks rows without negative advantage."""


def punish_nothing(experience: Experience) -> None:
    """Set the negative advantages of rows marked `UNPUNISHED` to 0, once they are computed. The loss still
    divides by their tokens, and a KL penalty in the loss counts them."""
    rows = (_entry(experience, UNPUNISHED) > 0)[:, None]
    advantages = experience.advantages
    experience.advantages = where(rows, advantages.clamp(min=0), advantages)


class CoevoExperienceMaker(RemoteExperienceMaker):
    """Hides the template from OpenRLHF's correction for the sampler."""

    template_effect: float | None = None
    """With `distill_forward`: the effect of the last batch's templates on the policy, if it had any."""

    def make_experience(self, samples_list: list[Experience]) -> list[Experience]:
        entries: list[Tensor] = []
        if received(self.args.coevo).distill_forward:
            entries = [_entry(sample, ROLLED_OUT) for sample in samples_list]
            for sample in samples_list:
                del sample.info[ROLLED_OUT]  # OpenRLHF treats what is left as metrics
        experiences: list[Experience] = super().make_experience(samples_list)
        under: list[Tensor | None] = [None] * len(experiences)
        if any(bool(rows.any()) for rows in entries):
            pad_id = self.tokenizer.pad_token_id
            under = [*after_rollout_prompts(experiences, entries, pad_id, self._forward)]
            self.template_effect = _effect(experiences, under)
        for experience, after in zip(experiences, under, strict=True):
            _hide_template(experience, after)
        return experiences

    def compute_advantages_and_returns(self, experiences: list[Experience]) -> list[Experience]:
        experiences = super().compute_advantages_and_returns(experiences)
        for experience in experiences:
            punish_nothing(experience)
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
    """Return the effect of these rows' templates on the policy, averaged over their tokens."""
    total, tokens = 0.0, 0
    for experience, after in zip(experiences, under, strict=True):
        if after is not None:
            counted = experience.action_mask * _distilled(experience)
            found = template_effect(experience.action_log_probs, after, counted)
            total, tokens = total + found[0], tokens + found[1]
    return total / tokens if tokens else None


def _distilled(experience: Experience) -> Tensor:
    """Return a mask of the rows that ran under a template, (B, 1). Raises HostError if it is unknown."""
    return (_entry(experience, DISTILLED) > 0).unsqueeze(-1)


def _entry(experience: Experience, name: str) -> Tensor:
    if name not in experience.info:
        raise HostError(
            f"OpenRLHF has lost the entry {name!r} of an Experience's info, which this adapter needs to "
            f"train on rollouts under a template; {ADVICE}"
        )
    found: Tensor = experience.info[name]
    return found


def _hide_template(experience: Experience, under: Tensor | None) -> None:
    """Take the template's part out of the sampler's log-probs of distilled rows.

    `under`: the trainer's log-probs after the prompts rows were sampled under, with `distill_forward`.
    """
    if experience.rollout_log_probs is not None:
        distilled, on_question = _distilled(experience), experience.action_log_probs
        by_sampler = experience.rollout_log_probs.to(on_question.dtype)
        experience.rollout_log_probs = without_template(on_question, by_sampler, distilled, under)
