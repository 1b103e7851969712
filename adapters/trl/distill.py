"""Context distillation: take the template out of the prompt ids that the trainer's generation returns.

This suffices: everything that the trainer computes afterwards (old, reference and new log-probs, the loss)
is then on `x`.
"""

from __future__ import annotations

from collections.abc import Sequence

from prompt_coevo.adapters.common.placed import reached
from prompt_coevo.adapters.trl.checks import can_tokenize
from prompt_coevo.adapters.trl.host import Ids, Trainer, has_own_rollouts
from prompt_coevo.errors import HostError
from prompt_coevo.placement import Prompt
from prompt_coevo.types import Assignment


class PromptExchange:
    """Exchanges the prompts of distilled rows for those to train on."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._has_checked = False

    def apply(
        self, assignments: Sequence[Assignment], prompts: Sequence[Prompt], rolled_out: Ids
    ) -> Ids:
        """Return the prompt ids to train on.

        `prompts` are those of the questions, `rolled_out` the ids that the sampler saw. Raises HostError if
        these differ from the trainer's own tokenisation.
        """
        distilled = [assignment.distilled for assignment in assignments]
        if not any(distilled):
            return rolled_out
        pairs = list(zip(assignments, prompts, strict=True))
        # A user's rollout_func may tokenise in its own way; then we cannot know the ids of x.
        if has_own_rollouts(self._trainer):
            placed = [assignment.rollout_prompt(prompt) for assignment, prompt in pairs]
            if self.tokenize(placed, distilled) != _chosen(rolled_out, distilled):
                raise HostError(
                    "the rollout_func returned prompt_ids that differ from the trainer's own "
                    "tokenisation of the prompts, so the template cannot be taken out of them; "
                    "tokenise with the trainer's chat template, or set context_distillation = false"
                )
        trained = [assignment.train_prompt(prompt) for assignment, prompt in pairs]
        exchanged = list(rolled_out)
        rows = [row for row, ours in enumerate(distilled) if ours]
        for row, ids in zip(rows, self.tokenize(trained, distilled), strict=True):
            exchanged[row] = ids
        return exchanged

    def check_placed(
        self, assignments: Sequence[Assignment], prompts: Sequence[Prompt], rolled_out: Ids
    ) -> None:
        """Raise HostError if a rollout was sampled on a prompt without what was placed in it.

        Only the first rows with an instruction or a template are looked at, and chats only if the trainer
        can tokenize them. Arguments as in `apply`.
        """
        pairs = zip(assignments, prompts, strict=True)
        placed = [one.rollout_prompt(prompt) != prompt for one, prompt in pairs]
        if self._has_checked or not any(placed) or not can_tokenize(self._trainer, prompts):
            return
        self._has_checked = True
        # `apply` compares all tokens of what a rollout_func samples and is distilled.
        own = has_own_rollouts(self._trainer)
        tokenizer = self._trainer.processing_class
        rows = zip(assignments, rolled_out, strict=True)
        if not all((own and one.distilled) or reached(tokenizer, ids, one) for one, ids in rows):
            raise HostError(
                "a rollout with an instruction or a template was sampled on a prompt without it, so none "
                "would ever reach the policy; let the rollout_func, or the class of the trainer, sample on "
                "the prompts that it is given"
            )

    def tokenize(self, prompts: list[Prompt], distilled: list[bool]) -> Ids:
        """Return the token ids of the distilled rows' prompts, as the trainer tokenises them."""
        # Environments bring a tool schema for every row, so all rows have to go in together.
        if getattr(self._trainer, "environment_factories", None) is not None:
            return _chosen(self._trainer._tokenize_prompts(prompts)[0], distilled)
        chosen = [prompt for prompt, ours in zip(prompts, distilled, strict=True) if ours]
        return [list(row) for row in self._trainer._tokenize_prompts(chosen)[0]]


def _chosen(ids: Ids, distilled: list[bool]) -> Ids:
    return [list(row) for row, ours in zip(ids, distilled, strict=True) if ours]
