"""Record what reaches the loss and the sampler of a real trainer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from worlds.pairs.world import base_policy_path


@dataclass
class Spy:
    """Spy on a trainer; installed before the callback, so it sees what the trainer's own methods see."""

    losses: list[dict[str, Any]] = field(default_factory=list)
    logps: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    sampled: list[tuple[list[list[int]], list[list[int]]]] = field(default_factory=list)
    reward_prompts: list[Any] = field(default_factory=list)

    @classmethod
    def on(cls, trainer: Any) -> Spy:
        spy = cls()
        compute_loss = trainer._compute_loss
        get_logps = trainer._get_per_token_logps_and_entropies
        single_turn = trainer._generate_single_turn
        inside_loss = False

        def spy_loss(model: Any, inputs: Any) -> Any:
            nonlocal inside_loss
            copied = {k: v.clone() if torch.is_tensor(v) else v for k, v in inputs.items()}
            spy.losses.append({**copied, "training": model.training})
            inside_loss = True
            try:
                return compute_loss(model, inputs)
            finally:
                inside_loss = False

        def spy_logps(model: Any, ids: Any, mask: Any, keep: int, *args: Any, **kwargs: Any) -> Any:
            result = get_logps(model, ids, mask, keep, *args, **kwargs)
            if inside_loss:
                spy.logps.append(
                    (
                        result[0].detach().clone(),
                        forward(model, ids, mask, keep, trainer.temperature),
                    )
                )
            return result

        def spy_single_turn(prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
            result = single_turn(prompt_ids, *args, **kwargs)
            completions = result[0] if isinstance(result, tuple) else result
            if trainer.model.training:
                spy.sampled.append(
                    ([list(ids) for ids in prompt_ids], [list(ids) for ids in completions])
                )
            return result

        trainer._compute_loss = spy_loss
        trainer._get_per_token_logps_and_entropies = spy_logps
        trainer._generate_single_turn = spy_single_turn
        return spy

    def rows(self, index: int) -> list[tuple[list[int], list[int]]]:
        """Return (prompt ids, completion ids) of one loss call, without padding."""
        return unpadded(self.losses[index])


def unpadded(inputs: dict[str, Any]) -> list[tuple[list[int], list[int]]]:
    return [
        (p[pm.bool()].tolist(), c[cm.bool()].tolist())
        for p, pm, c, cm in zip(
            inputs["prompt_ids"],
            inputs["prompt_mask"],
            inputs["completion_ids"],
            inputs["completion_mask"],
            strict=True,
        )
    ]


def forward(model: Any, ids: Any, mask: Any, keep: int, temperature: float = 1.0) -> torch.Tensor:
    """Return log-probs of the last `keep` tokens by a plain forward pass, (B, keep)."""
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask).logits[:, -keep - 1 : -1] / temperature
    return logits.log_softmax(-1).gather(-1, ids[:, -keep:, None])[..., 0]


def manual_logps(
    model: Any,
    prompts: list[list[int]],
    inputs: dict[str, Any],
    pad: int,
    temperature: float = 1.0,
) -> torch.Tensor:
    """Return log-probs of a loss call's completions after other prompts, (B, T)."""
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(row)) + row for row in prompts])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts])
    return forward(
        model,
        torch.cat([ids, inputs["completion_ids"]], 1),
        torch.cat([mask, inputs["completion_mask"]], 1),
        inputs["completion_ids"].shape[1],
        temperature,
    )


class Logps:
    """Compute a loss call's log-probs by the base policy, after x and after the sampled-on prompt.

    `base` is another policy that the run began with. `placed` maps the prompts trained on to those sampled
    on; without it they are found by their completions.
    """

    def __init__(
        self,
        spy: Spy,
        index: int,
        tokenizer: Any,
        base: Any = None,
        placed: dict[tuple[int, ...], list[int]] | None = None,
    ) -> None:
        base = (
            base
            or AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32).eval()
        )
        loss = spy.losses[index]
        sampled = {
            tuple(completion): prompt
            for prompts, completions in spy.sampled
            for prompt, completion in zip(prompts, completions, strict=True)
        }
        plain = [prompt for prompt, _ in spy.rows(index)]
        rolled_out = [
            sampled[tuple(completion)] if placed is None else placed[tuple(prompt)]
            for prompt, completion in spy.rows(index)
        ]
        self.loss = loss
        self.mask = loss["completion_mask"].bool()
        self.on_question = manual_logps(base, plain, loss, tokenizer.pad_token_id)
        self.on_rollout = manual_logps(base, rolled_out, loss, tokenizer.pad_token_id)
        self.templated = torch.tensor([a != b for a, b in zip(plain, rolled_out, strict=True)])

    def close(self, values: torch.Tensor, expected: torch.Tensor, mask: Any = None) -> bool:
        mask = self.mask if mask is None else mask
        return bool((values - expected)[mask].abs().max() <= 1e-4)
