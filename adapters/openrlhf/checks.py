"""Refusals of arguments that cannot work, in one sentence each."""

from __future__ import annotations

from prompt_coevo.adapters.openrlhf.host import Arguments
from prompt_coevo.errors import HostError
from prompt_coevo.settings.method import Workload


def check_arguments(args: Arguments) -> None:
    """Raise HostError for arguments of OpenRLHF that the adapter cannot serve."""
    if args.rollout.n_samples_per_prompt < 2:
        raise HostError(
            f"--rollout.n_samples_per_prompt {args.rollout.n_samples_per_prompt} makes no groups: it "
            "must be at least 2"
        )
    if not (args.reward.remote_url or args.train.agent_func_path):
        raise HostError(
            "without --reward.remote_url or --train.agent_func_path rewards come from a reward model "
            "after generation, too late to judge prompts by; serve it and name it by "
            "--reward.remote_url"
        )
    if not args.vllm.num_engines:
        raise HostError("--coevo needs rollouts by vLLM; set --vllm.num_engines to at least 1")
    if getattr(args.ckpt, "disable_ds", False) and args.ckpt.save_steps > 0:
        raise HostError(
            "--ckpt.disable_ds skips the checkpoints that hold the engine's state; leave it out, or "
            "set --ckpt.save_steps -1"
        )
    if getattr(args.train, "partial_rollout_enable", False):
        raise HostError(
            "--train.partial_rollout_enable changes the weights in the middle of a rollout, so prompts "
            "cannot be compared on one policy; leave it out"
        )
    if args.ds.lora.rank > 0:
        raise HostError(
            "--ds.lora.rank: OpenRLHF sends LoRA's weights under names that vLLM does not know, so its run "
            "would end after the first update, with or without --coevo; leave it out"
        )
    if getattr(args.data, "max_images_per_prompt", 0):
        raise HostError(
            "--data.max_images_per_prompt: templates and instructions can be placed in text prompts "
            "only, so vision-language training is not supported; leave it out"
        )


def workload(args: Arguments, prompts: int, questions: int) -> Workload:
    """Return the size of a run with so many prompts in its dataset. A step is one batch of rollouts."""
    steps = prompts // args.rollout.batch_size * args.train.num_episodes
    return Workload(
        questions=questions,
        group_size=args.rollout.n_samples_per_prompt,
        epochs=args.train.num_episodes,
        steps=steps or None,
        rows=prompts,
    )
