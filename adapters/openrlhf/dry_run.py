"""The dry run (`--coevo.preflight.dry_run`), in the process that would launch Ray."""

from __future__ import annotations

from types import SimpleNamespace

import openrlhf.trainer.ppo_trainer as sync
from openrlhf.utils.utils import get_tokenizer

from prompt_coevo.adapters.common.dry_run import Prepared
from prompt_coevo.adapters.common.patching import swapped
from prompt_coevo.adapters.openrlhf.checks import workload
from prompt_coevo.adapters.openrlhf.host import Arguments
from prompt_coevo.adapters.openrlhf.questions import CoevoPromptDataset
from prompt_coevo.settings import Settings


def prepare(args: Arguments, settings: Settings) -> Prepared:
    """Read model and training dataset as the trainer does. Raises whatever reading them raises."""
    # OpenRLHF's strategy needs Ray and DeepSpeed; these are the parts of it that reading data uses.
    strategy = SimpleNamespace(
        args=args,
        print=lambda *_: None,
        is_rank_0=lambda: False,  # no progress bar in the printed page
        setup_dataloader=lambda dataset, *_, **__: dataset,
    )
    fast = not args.data.disable_fast_tokenizer
    tokenizer = get_tokenizer(args.actor.model_name_or_path, None, "left", strategy, use_fast=fast)
    with swapped(sync, "PromptDataset", CoevoPromptDataset):
        dataset, _, _ = sync.prepare_datasets(strategy, tokenizer)
    questions, engine = dataset.open_engine(settings, None)
    return Prepared(engine, questions, workload(args, len(dataset), len(questions)))
