"""Replace TRL's vLLM generation, which needs a GPU: the same calls, answered by transformers.

As the real one in server mode, it samples `prompts[::num_generations]` with that many completions each,
and returns log-probs under the prompt it was given.
"""

from __future__ import annotations

from typing import Any

import torch


class VLLMGeneration:
    """A replacement for `trainer.vllm_generation`, installed by `use_vllm`."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.temperature = trainer.temperature
        self.generation_kwargs = trainer.args.generation_kwargs or {}
        self.calls: list[dict[str, Any]] = []
        self.syncs = 0
        self.drift = 0.0
        """How much its log-probs are above the trainer's, as those of another precision are."""

    @property
    def _used(self) -> float:
        """Return the temperature: the real one lets `generation_kwargs` override its own parameters."""
        return float(self.generation_kwargs.get("temperature", self.temperature))

    def sync_weights(self) -> None:
        self.syncs += 1

    def generate(
        self, prompts: list[list[int]], images: Any, num_generations: int, profiler: Any = None
    ) -> tuple[Any, list[list[int]], list[list[list[float]]], Any]:
        self.calls.append({"rows": len(prompts), "n": num_generations, "temperature": self._used})
        completions, logps = [], []
        for prompt in prompts[::num_generations]:
            for _ in range(num_generations):
                ids, values = self._sample(prompt)
                completions.append(ids)
                logps.append([[value] for value in values])
        return None, completions, logps, None

    def _sample(self, prompt: list[int]) -> tuple[list[int], list[float]]:
        trainer, temperature = self._trainer, self._used
        was_training = trainer.model.training
        trainer.model.eval()
        with torch.no_grad():
            output = trainer.model.generate(
                torch.tensor([prompt]),
                do_sample=temperature > 0,
                temperature=temperature or None,
                max_new_tokens=trainer.max_completion_length,
                return_dict_in_generate=True,
                output_logits=True,
            )
        trainer.model.train(was_training)
        ids = output.sequences[0, len(prompt) :]
        logits = torch.stack(output.logits)[:, 0] / (temperature or 1.0)
        values = logits.log_softmax(-1).gather(-1, ids[:, None])[:, 0]
        return ids.tolist(), (values + self.drift).tolist()


def use_vllm(trainer: Any) -> VLLMGeneration:
    """Make a trainer generate through the stand-in, as with `use_vllm=True, vllm_mode="server"`."""
    trainer.use_vllm = True
    trainer.vllm_mode = "server"
    trainer._last_loaded_step = -1
    trainer.vllm_generation = VLLMGeneration(trainer)
    return trainer.vllm_generation  # type: ignore[no-any-return]
