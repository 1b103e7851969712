"""What cannot work, refused with one sentence, and how long a prompt may be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from prompt_coevo.adapters.openrlhf.host import Arguments
from prompt_coevo.doors.length_gate import LONGEST_LOOKED_AT, PromptLimit
from prompt_coevo.doors.questions import QuestionIndex
from prompt_coevo.errors import HostError
from prompt_coevo.extras import MissingExtraError
from prompt_coevo.placement import Prompt
from prompt_coevo.settings import Settings
from prompt_coevo.tokens import encode

if TYPE_CHECKING:
    from prompt_coevo.adapters.openrlhf.questions import CoevoPromptDataset

# Flags and internals change within 0.11.
_FIRST: Final = (0, 11, 2)
_BELOW: Final = (0, 12)


def check_version() -> None:
    """Raise HostError or MissingExtraError unless a supported OpenRLHF is installed."""
    try:
        found = version("openrlhf")
    except PackageNotFoundError:
        raise MissingExtraError(
            "this command needs the package 'openrlhf', which is not installed; "
            "run: pip install 'prompt-coevo[openrlhf]'"
        ) from None
    numbers = tuple(map(int, re.findall(r"\d+", found)[:3]))
    if not _FIRST <= numbers < _BELOW:
        raise HostError(
            f"openrlhf {found} is not supported, because its internals differ; "
            "install openrlhf>=0.11.2,<0.12"
        )


def check_arguments(args: Arguments, settings: Settings) -> None:
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
            "--ckpt.disable_ds leaves out the checkpoints that the state travels in; leave it out, or "
            "set --ckpt.save_steps -1"
        )
    if getattr(args.train, "partial_rollout_enable", False):
        raise HostError(
            "--train.partial_rollout_enable changes the weights in the middle of a rollout, so prompts "
            "cannot be compared on one policy; leave it out"
        )
    if getattr(args.data, "max_images_per_prompt", 0):
        raise HostError(
            "--data.max_images_per_prompt: templates and instructions can be placed in text prompts "
            "only, so vision-language training is not supported"
        )
    if settings.distill_ratio != "clean" and args.algo.advantage.is_correction_level == "off":
        raise HostError(
            f"--coevo.distill_ratio {settings.distill_ratio} needs the sampler's log-probs; set "
            "--algo.advantage.is_correction_level"
        )


def prompt_limit(args: Arguments, dataset: CoevoPromptDataset) -> PromptLimit:
    """OpenRLHF cuts a longer prompt off at the left with a warning, and the instruction goes first."""

    def needed(prompts: Sequence[Prompt]) -> int:
        return max(len(encode(dataset.tokenizer, dataset.render(prompt))) for prompt in prompts)

    def room() -> int:
        return int(args.data.max_len - (args.rollout.max_new_tokens or 1))

    return PromptLimit(needed, room, "--data.max_len leaves room for")


def check_questions(questions: QuestionIndex, limit: PromptLimit) -> None:
    """Raise HostError if a question is cut off: then its prompt cannot be exchanged for another one."""
    needed = limit.needed(questions.longest_prompts(LONGEST_LOOKED_AT))
    room = limit.tokens()
    if room is not None and needed > room:
        raise HostError(
            f"the longest question needs {needed} tokens, {limit.name} {room}; raise it, or leave such "
            "questions out of the dataset"
        )
