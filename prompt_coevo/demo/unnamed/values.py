"""Values for training and evaluating a real language model. Reading them needs no torch."""

from __future__ import annotations

from typing import Final

from prompt_coevo.demo.job import Job
from prompt_coevo.demo.unnamed.arms import GROUP_SIZE, ROLLOUTS_PER_STEP
from prompt_coevo.lines import JSON

TEMPERATURE: Final = 0.7
"""At 1.0 a model of this size rambles."""
LEARNING_RATE: Final = 2e-5
SAMPLES: Final = 2
"""Samples of every held-out question at every point."""

CHAT: Final = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""SmolLM2's chat template without its default system message, which is twice as long as a question."""


def trainer_values(job: Job, most_tokens: int) -> dict[str, JSON]:
    """Return what all trainers have in common, by TRL's names, whether or not there is a GPU."""
    return {
        "output_dir": str(job.out),
        "seed": job.seed,
        "max_steps": job.budget // ROLLOUTS_PER_STEP,
        "per_device_train_batch_size": ROLLOUTS_PER_STEP,
        "num_generations": GROUP_SIZE,
        "max_completion_length": most_tokens,
        "temperature": TEMPERATURE,
        "learning_rate": LEARNING_RATE,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 3,
        "adam_beta2": 0.99,
        "beta": 0.0,
        "gradient_checkpointing": False,
        "bf16": True,  # multiply in bfloat16 where the machine can, keep weights in float32
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "logging_steps": 1,
    }
