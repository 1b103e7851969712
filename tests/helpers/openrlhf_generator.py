"""Run OpenRLHF's sample generator without its trainer: real Ray, real vLLM actors, made-up responses.

For tests and `benchmarks/data_plane_openrlhf.py`. Stand-ins: vLLM and flash-attn, of which only names
count, so their folder has to be on the path before this is imported (`standins_on_path`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray
from datasets import Dataset
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from torchdata.stateful_dataloader import StatefulDataLoader
from transformers import AutoTokenizer

from helpers.trl_world import TASKS
from prompt_coevo import hookimpl
from prompt_coevo.adapters.openrlhf.generation import CoevoSamplesGenerator
from prompt_coevo.adapters.openrlhf.questions import CoevoPromptDataset
from prompt_coevo.adapters.openrlhf.rewards import CoevoRolloutActor
from prompt_coevo.adapters.openrlhf.sent_settings import sent
from prompt_coevo.adapters.openrlhf.shared_tokenizer import TokenizerCache
from prompt_coevo.settings import Settings
from prompt_coevo.types import Candidate, MemberPlan
from worlds.pairs.world import base_policy_path

TEMPLATES = (Candidate("dax means reverse .", "template"), Candidate("note .", "template"))
TESTS = Path(__file__).parents[1]
_PATH = f"{TESTS / 'standins' / 'openrlhf'}:{TESTS}:{TESTS.parent / 'benchmarks'}"


class Executor:
    """Return responses of this many tokens, half of them with reward 1."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._asked = 0
        self._tokenizers: dict[int, Any] = {}

    async def execute(self, prompt: str, label: Any, hf_tokenizer: Any, **_: Any) -> dict[str, Any]:
        self._asked += 1
        self._tokenizers[id(hf_tokenizer)] = hf_tokenizer
        ids = hf_tokenizer(text=prompt, add_special_tokens=False)["input_ids"]
        words = [5 + (self._asked + place) % 20 for place in range(self._tokens)]
        reward = float(self._asked % 2)
        return {
            "prompt": prompt, "label": label, "images": None, "mm_train_inputs": None,
            "observation_tokens": ids + words,
            "action_ranges": [(len(ids), len(ids) + len(words))],
            "rollout_log_probs": [0.0] * len(ids) + [-1.0 - word / 7 for word in words],
            "truncated": False, "reward": reward, "scores": reward,
            "extra_logs": {"tokenizers": float(len(self._tokenizers))},
        }  # fmt: skip


class MakesUp(CoevoRolloutActor):
    """The adapter's vLLM actor without an engine."""

    async def __init__(self, tokens: int) -> None:  # type: ignore[misc]
        self.executor = Executor(tokens)
        self._borrowed = TokenizerCache()

    def get_num_unfinished_requests(self) -> int:
        return 0


class HalfTemplated:
    """Run every second group under two templates and none, the others unchanged."""

    @hookimpl
    def coevo_plan_group(self, group: int, group_size: int) -> Any:
        if group % 2:
            return None
        turns = (None, *TEMPLATES)
        return [MemberPlan(template=turns[member % 3]) for member in range(group_size)]


def strategy(folder: Path, questions: int, size: int, tokens: int) -> SimpleNamespace:
    """Build a strategy with only what generator and dataset read."""
    settings = Settings(
        algorithms="stream",
        reflection={"model": "openai/nobody", "total_timeout_s": 1},
        preflight={"reflection": "off"},
    )
    sections: dict[str, dict[str, Any]] = {
        "actor": {"model_name_or_path": str(base_policy_path())},
        "algo": {
            "advantage": SimpleNamespace(is_correction_level="token"),
            "dynamic_filtering_enable": False,
        },
        "ckpt": {"path": str(folder), "save_steps": 1},
        "data": {
            "input_key": "input", "label_key": "label", "apply_chat_template": True,
            "image_key": None, "max_images_per_prompt": 0, "max_len": tokens + 128,
        },
        "eval": {"steps": -1},
        "rollout": {
            "batch_size": questions, "n_samples_per_prompt": size, "max_new_tokens": tokens,
        },
        "train": {"async_enable": False, "num_episodes": 2},
        "vllm": {"enable_sleep": False},
    }  # fmt: skip
    args = {name: SimpleNamespace(**section) for name, section in sections.items()}
    return SimpleNamespace(
        args=SimpleNamespace(**args, coevo=sent(settings)),
        print=lambda *_: None,
        is_rank_0=lambda: False,
    )


@contextmanager
def local_ray(folder: Path, store: int = 200_000_000) -> Iterator[None]:
    """Run Ray for this process, with the stand-ins for its workers."""
    with chdir(folder):  # workers import from where their driver is
        ray.init(
            num_cpus=8,  # logical
            include_dashboard=False,
            object_store_memory=store,
            runtime_env={"env_vars": {"PYTHONPATH": _PATH}},
        )
        try:
            yield
        finally:
            ray.shutdown()


def engines(number: int, tokens: int) -> list[Any]:
    """Start this many vLLM actors in `local_ray`."""
    actor = ray.remote(num_cpus=0)(MakesUp)
    return [actor.remote(tokens) for _ in range(number)]


def generator(
    folder: Path, actors: list[Any], questions: int, size: int, tokens: int, *, bare: bool = False
) -> SamplesGenerator:
    """Return OpenRLHF's generator if `bare`, else the adapter's with `HalfTemplated`."""
    host = strategy(folder, questions, size, tokens)
    tokenizer = AutoTokenizer.from_pretrained(base_policy_path())
    texts = [
        {"input": f"{TASKS[n % len(TASKS)].question} {'note ' * (n // len(TASKS) % 20)}".strip()}
        for n in range(questions)
    ]
    data = Dataset.from_list([{**row, "label": str(n)} for n, row in enumerate(texts)])
    dataset = CoevoPromptDataset(data, tokenizer, host)
    loader = StatefulDataLoader(dataset, batch_size=1, collate_fn=dataset.collate_fn)
    kind = SamplesGenerator if bare else CoevoSamplesGenerator
    made = kind(host, loader, None, tokenizer, actors)
    if not bare:
        made.engine.context.plugins.register(HalfTemplated(), "half_templated")
    return made
