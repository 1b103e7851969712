"""Record the inputs and outputs of TRL's vLLM generation, with the current weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from helpers.spies import forward


@dataclass(frozen=True)
class Call:
    """One `generate` call: a row is a completion. `weights` are the trainer's at that time."""

    prompts: list[list[int]]
    completions: list[list[int]]
    log_probs: list[list[float]]
    temperature: float
    training: bool
    weights: dict[str, torch.Tensor]

    def error(self, model: Any, weights: dict[str, torch.Tensor] | None = None) -> float:
        """Return the largest difference to the log-probs of a forward pass with the call's own weights."""
        model.load_state_dict(weights or self.weights)
        before, after = max(map(len, self.prompts)), max(map(len, self.completions))
        ids, mask = [], []
        for prompt, completion in zip(self.prompts, self.completions, strict=True):
            left, right = before - len(prompt), after - len(completion)
            ids.append([0] * left + prompt + completion + [0] * right)
            mask.append([0] * left + [1] * (len(ids[-1]) - left - right) + [0] * right)
        values = forward(model, torch.tensor(ids), torch.tensor(mask), after, self.temperature)
        return max(
            (row[: len(given)] - torch.tensor(given)).abs().max().item()
            for row, given in zip(values, self.log_probs, strict=True)
        )


@dataclass
class SamplerSpy:
    """Record calls of the sampler; put on a trainer before the callback."""

    calls: list[Call] = field(default_factory=list)

    @classmethod
    def on(cls, trainer: Any) -> SamplerSpy:
        spy, engine = cls(), trainer.vllm_generation
        generate = engine.generate

        def spy_generate(*given: Any, **named: Any) -> Any:
            result = generate(*given, **named)
            sampled_under, completions, log_probs, _ = result
            spy.calls.append(
                Call(
                    [list(ids) for ids in sampled_under],
                    [list(ids) for ids in completions],
                    [[value[0] for value in row] for row in log_probs],
                    engine.temperature,
                    trainer.model.training,
                    {k: v.detach().clone() for k, v in trainer.model.state_dict().items()},
                )
            )
            return result

        engine.generate = spy_generate
        return spy
