"""Refuse what cannot work, before training and with one sentence, and limit the length of prompts."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import trl
from trl import GRPOTrainer, RLOOTrainer

from prompt_coevo.adapters.common.length_gate import PromptLimit, tokens_needed
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.trl.host import Trainer, has_own_rollouts
from prompt_coevo.adapters.trl.streams import is_stream
from prompt_coevo.errors import HostError
from prompt_coevo.markers import PROJECT
from prompt_coevo.placement import Prompt

logger = logging.getLogger(PROJECT)


def check_trainer(trainer: Trainer) -> None:
    """Raise HostError for a trainer, or a configuration of one, that the adapter cannot serve."""
    # Unsloth puts its own classes into `trl`, perhaps after this file was imported.
    if not isinstance(trainer, (GRPOTrainer, RLOOTrainer, trl.GRPOTrainer, trl.RLOOTrainer)):
        name = type(trainer).__name__
        if "Async" in name:
            raise HostError(
                f"{name} samples in a separate process that prompt_coevo cannot reach; use GRPOTrainer"
            )
        raise HostError(
            "prompt_coevo works with GRPOTrainer and RLOOTrainer of TRL, not with "
            f"{type(trainer).__module__}.{name}"
        )
    if trl.__version__ == "1.15.0":
        raise HostError("TRL 1.15.0 cannot train without triton; install 1.14 or 1.16")
    args = trainer.args
    saves = args.save_strategy != "no" or getattr(args, "enable_jit_checkpoint", False)
    if saves and args.save_only_model:
        raise HostError(
            "save_only_model=True leaves the optimizer and the state of prompt_coevo out of checkpoints, "
            "so a resumed run would forget what it has learned of prompts; leave it out, or set "
            'save_strategy="no"'
        )
    dataset = trainer.train_dataset
    columns = getattr(dataset, "column_names", None) or (
        next(iter(dataset), ()) if is_stream(dataset) else ()
    )
    hidden = sorted(set(columns) - {"prompt", "image", "images"})
    if args.remove_unused_columns and hidden:
        raise HostError(
            f"remove_unused_columns=True takes {', '.join(hidden)} out of the batches, so no question in "
            "them could be recognised; leave it out, as TRL does"
        )
    # TRL 1.0 has no `_is_vlm`; there a processor with a tokenizer in it means a vision-language model.
    sees = getattr(trainer, "_is_vlm", hasattr(trainer.processing_class, "tokenizer"))
    if sees and {"image", "images"} & set(columns):
        raise HostError(
            "the training dataset has images; templates and instructions can be placed in text "
            "prompts only, so vision-language training is not supported"
        )


def check_prompts(trainer: Trainer, questions: QuestionIndex) -> None:
    """Raise HostError for prompts that this model and its tokenizer cannot take."""
    prompts = questions.longest_prompts()
    if not can_tokenize(trainer, prompts):
        if has_own_rollouts(trainer):
            return
        raise HostError(
            "the prompts of the training dataset are chats, and the tokenizer has no chat template; give "
            "it one (tokenizer.chat_template), or make the prompts texts"
        )
    longest, room = tokens_needed(trainer.processing_class, prompts), prompt_limit(trainer).tokens()
    if room is not None and longest >= room:
        raise HostError(
            f"the longest question has {longest} tokens and the model has room for {room}, so no answer "
            "could follow; leave such questions out of the training dataset"
        )


def can_tokenize(trainer: Trainer, prompts: Sequence[Prompt]) -> bool:
    """Check that prompts are not chats of a trainer without a chat template."""
    templates = (getattr(one, "chat_template", None) for one in (trainer, trainer.processing_class))
    return isinstance(prompts[0], str) or any(templates)


def warn_of_cut_rounds(trainer: Trainer, save_steps: float) -> None:
    """Warn if a checkpoint may fall between the weight updates of one generation round."""
    args = trainer.args
    updates = args.steps_per_generation * trainer.num_iterations / args.gradient_accumulation_steps
    if args.save_strategy == "steps" and updates > 1 and save_steps % updates:
        logger.warning(
            "save_steps = %d is not a multiple of the %g steps that one generation serves: a run "
            "resumed from such a checkpoint trains on other batches than an uninterrupted one",
            save_steps,
            updates,
        )


def prompt_limit(trainer: Trainer) -> PromptLimit:
    """Build the limit on a placed prompt: it must fit into the model together with a completion.

    TRL never truncates a prompt; an overlong one fails in vLLM or runs out of positions.
    """

    def needed(prompts: Sequence[Prompt]) -> int:
        completion = trainer.max_completion_length or 0
        return tokens_needed(trainer.processing_class, prompts) + completion

    def room() -> int | None:
        # For a vision-language model, this is the configuration of its language part.
        text = trainer.model.config.get_text_config()
        limits = [getattr(text, "max_position_embeddings", None)]
        if trainer.use_vllm:
            limits.append(getattr(trainer.args, "vllm_max_model_length", None))
        return min((limit for limit in limits if limit is not None), default=None)

    return PromptLimit(needed, room, "the model has room for")
