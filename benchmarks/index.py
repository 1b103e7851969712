"""Measure what reading a dataset's questions costs at the start of a run, as each adapter reads them.

    python benchmarks/index.py [--rows 10000 100000 1000000] [--json FILE]

Needs VeRL's environment. Rows are chats of 61 words, drawn by Zipf's law from 30 000, in a parquet
file. `lookups alone` is the cost of reading every row through the dataset's own `__getitem__` without
using it. Times are CPU seconds; memory is the peak of the process, with what it imports. Every number
comes from a separate process.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from datasets import Dataset
from omegaconf import OmegaConf

from prompt_coevo.settings import Settings

WORDS: Final = 61
VOCABULARY: Final = 30_000


def write(rows: int, path: Path) -> None:
    """Write a dataset in VeRL's format, with the question as an extra column for TRL."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(2, 12, VOCABULARY)]

    def generate() -> Any:
        for start in range(0, rows, 1_000):
            for offset, ranks in enumerate(rng.zipf(1.3, (min(1_000, rows - start), WORDS))):
                number = start + offset
                text = " ".join(words[min(rank, VOCABULARY) - 1] for rank in ranks.tolist())
                yield {
                    "prompt": [{"role": "user", "content": f"{number} {text}"}],
                    "reward_model": {"style": "rule", "ground_truth": str(number % 1_000)},
                    "extra_info": {"index": number, "split": "train"},
                    "answer": str(number % 1_000),
                }

    Dataset.from_generator(generate, cache_dir=str(path.parent)).to_parquet(str(path))


def read_trl(path: Path) -> None:
    from prompt_coevo.adapters.common.columns import index_columns

    index_columns(Dataset.from_parquet(str(path), cache_dir=str(path.parent)), Settings())


def verl_dataset(path: Path) -> Any:
    from verl.utils.dataset.rl_dataset import RLHFDataset

    config = {"prompt_key": "prompt", "filter_overlong_prompts": False}
    return RLHFDataset(str(path), None, OmegaConf.create({**config, "cache_dir": str(path.parent)}))


def read_verl(path: Path) -> None:
    from prompt_coevo.adapters.verl.questions import index_questions

    index_questions(verl_dataset(path), Settings(), {"single_turn_agent"}, 4)


def read_lookups(path: Path) -> None:
    dataset = verl_dataset(path)
    for number in range(len(dataset)):
        dataset[number]


READERS: Final[dict[str, Callable[[Path], None]]] = {
    "TRL": read_trl,
    "VeRL": read_verl,
    "VeRL, lookups alone": read_lookups,
}


def measure(name: str, path: Path, answers: Any) -> None:
    READERS[name](path)  # imports and the dataset library's caches are not counted
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    READERS[name](path)
    seconds = time.process_time() - start
    answers.put((seconds, memory / 1024))


def measured(name: str, path: Path) -> tuple[float, float]:
    context = multiprocessing.get_context("spawn")
    answers: Any = context.SimpleQueue()
    process = context.Process(target=measure, args=(name, path, answers))
    process.start()
    process.join()
    seconds, megabytes = answers.get()
    return seconds, megabytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in given.rows:
            path = Path(folder) / str(rows) / "train.parquet"
            path.parent.mkdir()
            write(rows, path)
            for name in READERS:
                seconds, peak = measured(name, path)
                table.append(
                    {
                        "rows": rows,
                        "adapter": name,
                        "cpu_seconds": round(seconds, 2),
                        "peak_mb": round(peak),
                    }
                )
                print(
                    f"{rows:>9,} rows  {name:<20} {seconds:8.2f} CPU s   peak {peak:,.0f} MB",
                    flush=True,
                )
    if given.json:
        given.json.write_text(
            json.dumps({"python": platform.python_version(), "table": table}, indent=1) + "\n",
            "utf-8",
        )


if __name__ == "__main__":
    main()
