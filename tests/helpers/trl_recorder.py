"""Record what a TRL trainer does.

`Recorder` overrides methods of the class, and `generate` of the model; an adapter wraps methods of the
instance. So everything here is below the adapter, which cannot influence it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM

from prompt_coevo.testing.adapter import Evaluated, LogProbs, Record, Sampled, Trained, fingerprint
from worlds.pairs.world import base_policy_path

_ROW = "row_under_test"
"""Field of a generation batch: the number of the row, before TRL shuffles them."""


class _Passes(NamedTuple):
    """Log-probs that a loss used, and those that it should have used, computed from the weights."""

    used: torch.Tensor
    trained: torch.Tensor
    placed: torch.Tensor

    def of(self, row: int, places: Sequence[int], start: int, shift: int) -> LogProbs:
        """Return one row's log-probs; RLOO's old ones are summed over the completion, like the rest."""
        trained = [float(self.trained[row][place - 1]) for place in places]
        placed = [float(self.placed[row][place + shift - 1]) for place in places]
        if self.used.dim() == 1:
            return LogProbs([float(self.used[row])], [sum(trained)], [sum(placed)])
        return LogProbs([float(self.used[row][place - start]) for place in places], trained, placed)


class Recorder:
    """Record a GRPOTrainer or RLOOTrainer; comes before it in the order of inheritance."""

    def __init__(self, *arguments: Any, record: Record, **others: Any) -> None:
        self.record = record
        self.moment, self.updates, self.rounds = "policy", 0, -1
        self._sampled_on: list[list[int]] = []
        self._of_loss: tuple[torch.Tensor, torch.Tensor, int, torch.Tensor] | None = None
        super().__init__(*arguments, **others)
        generate = self.model.generate
        self.model.generate = lambda **inputs: self._generated(generate, **inputs)

    def count_from_here(self) -> None:
        """Start counting when training begins: after a checkpoint was loaded, before the adapter acts."""
        self.updates = self.state.global_step
        self.rounds = self.updates // self.args.steps_per_generation - 1
        self.look()

    def create_optimizer(self, *arguments: Any, **others: Any) -> Any:
        optimizer = super().create_optimizer(*arguments, **others)
        optimizer.register_step_post_hook(lambda *_: self._updated())
        return optimizer

    def _updated(self) -> None:
        self.updates += 1
        self.record.updates.append(self.updates)
        self.look()

    def look(self) -> None:
        """Note the weights, and what they write."""
        self.record.weights[self.updates] = self.weights()
        self.record.greedy[self.updates] = {
            row["id"]: self._greedy(row["prompt"]) for row in self.record.dataset
        }

    def weights(self) -> str:
        """Return a fingerprint of the weights."""
        parts = [one.detach().numpy().tobytes() for one in self.model.parameters()]
        return fingerprint(b"".join(parts))

    def host_state(self) -> dict[str, str]:
        """Return the state that a policy rollout must not change."""
        drawn = [
            torch.get_rng_state().tolist(),
            random.getstate(),
            np.random.get_state()[1].tolist(),
        ]
        pending = [self._pending_extra_logs, self._pending_metrics]
        return {
            "random": fingerprint(drawn),
            "weights": self.weights(),
            "mode": str(self.model.training),
            "metrics": fingerprint(repr([self._metrics, self._logs, pending])),
            "generation": repr([self.generation_config, self.generation_kwargs]),
            "state": repr(self.state),
            "attributes": repr(sorted(vars(self))),
            "dataset": fingerprint(self.train_dataset.to_list()),
        }

    # Sampling

    def training_step(self, *arguments: Any, **others: Any) -> Any:
        return self._during("train", super().training_step, *arguments, **others)

    def evaluate(self, *arguments: Any, **others: Any) -> Any:
        seen = len(self.record.sampled)
        metrics = self._during("evaluate", super().evaluate, *arguments, **others)
        prompts = [row.prompt_ids for row in self.record.sampled[seen:]]
        self.record.evaluated.append(Evaluated(self.updates, prompts))
        return metrics

    def _during(self, moment: str, act: Callable[..., Any], /, *args: Any, **others: Any) -> Any:
        before, self.moment = self.moment, moment
        try:
            return act(*args, **others)
        finally:
            self.moment = before

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        if self.moment == "train":
            self.rounds += 1
            self._sampled_on = []
            self._at_sampling.load_state_dict(self.model.state_dict())
        output = super()._generate_and_score_completions(inputs)
        output[_ROW] = torch.arange(len(inputs))
        return output

    def _generated(
        self, generate: Callable[..., Any], *, generation_config: Any, **inputs: Any
    ) -> Any:
        output = generate(generation_config=generation_config, **inputs)
        number = self.rounds if self.moment == "train" else self.updates
        temperature = generation_config.temperature if generation_config.do_sample else 0.0
        ids, mask = inputs["input_ids"], inputs["attention_mask"].bool()
        for row, mine, sampled in zip(ids, mask, output[:, ids.shape[1] :].tolist(), strict=True):
            prompt, end = row[mine].tolist(), self.processing_class.eos_token_id
            completion = sampled[: sampled.index(end) + 1] if end in sampled else sampled
            text = self.processing_class.decode(completion, skip_special_tokens=True)
            self.record.sampled.append(
                Sampled(self.moment, number, prompt, completion, text, temperature)
            )
            if self.moment == "train":
                self._sampled_on.append(prompt)
        return output

    def _greedy(self, prompt: Any) -> str:
        tokenizer = self.processing_class
        ids = list(
            tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True)[
                "input_ids"
            ]
        )
        first = len(ids)
        self._live.load_state_dict(self.model.state_dict())
        with torch.no_grad():
            while len(ids) - first < self.max_completion_length:
                ids.append(int(self._live(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
                if ids[-1] == tokenizer.eos_token_id:
                    break
        return str(tokenizer.decode(ids[first:], skip_special_tokens=True))

    # The loss

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Any,
        attention_mask: Any,
        logits_to_keep: int,
        *rest: Any,
        **kw: Any,
    ) -> Any:
        result = super()._get_per_token_logps_and_entropies(
            model, input_ids, attention_mask, logits_to_keep, *rest, **kw
        )
        self._of_loss = (input_ids, attention_mask, logits_to_keep, result[0].detach())
        return result

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        loss = super()._compute_loss(model, inputs)
        if self.moment == "train":
            self._note_loss(inputs)
        return loss

    def _note_loss(self, inputs: Any) -> None:
        """Record the last log-prob call, which is the loss's."""
        assert self._of_loss is not None
        ids, mask, kept, new = self._of_loss
        width = ids.shape[1] - kept
        in_loss = mask[:, width:] * inputs.get("tool_mask", 1)
        trained = [row[mine.bool()].tolist() for row, mine in zip(ids, mask, strict=True)]
        prompts = [int(mine[:width].sum()) for mine in mask]
        placed_prompts = [self._sampled_on[number] for number in inputs[_ROW].tolist()]
        placed = [
            prompt + row[start:]
            for prompt, row, start in zip(placed_prompts, trained, prompts, strict=True)
        ]
        self._live.load_state_dict(self.model.state_dict())
        passes = {
            name: _Passes(used, self._forward(model, trained), self._forward(model, placed))
            for name, model, used in (
                ("new", self._live, new),
                (
                    "old",
                    self._at_sampling,
                    inputs.get("old_per_token_logps", inputs.get("old_logps")),
                ),
                ("reference", self._reference, inputs.get("ref_per_token_logps")),
            )
            if used is not None
        }
        for number, row in enumerate(trained):
            start, shift = prompts[number], len(placed_prompts[number]) - prompts[number]
            places = [start + place for place in in_loss[number].nonzero()[:, 0].tolist()]
            log_probs = {name: one.of(number, places, start, shift) for name, one in passes.items()}
            self.record.trained.append(Trained(self.updates + 1, row, places, log_probs))

    def _forward(self, model: Any, rows: Sequence[list[int]]) -> torch.Tensor:
        """Return the log-prob of every token but the first, (B, L-1)."""
        ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
        with torch.no_grad():
            logits = model(input_ids=ids).logits[:, :-1] / self.temperature
        log_probs: torch.Tensor = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
        return log_probs

    # Models of the recorder's own: TRL changes how its own ones answer.

    @cached_property
    def _live(self) -> Any:
        return first_policy()

    @cached_property
    def _at_sampling(self) -> Any:
        return first_policy()

    @cached_property
    def _reference(self) -> Any:
        return first_policy()


def first_policy() -> Any:
    """Return the model that every run starts from."""
    return AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32).eval()
