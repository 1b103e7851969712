"""Let a real language model search WordNet, without training.

    python benchmarks/search_language.py [--json FILE]

The policy is SmolLM2-135M-Instruct (`COEVO_MODEL`, by default what `prompt-coevo smollm2` makes) in TRL's
GRPOTrainer, the passages all synsets of WordNet 3.0, as "words: gloss", in a `bm25` index in the trainer's
process. A question is the gloss of a synset, and any of its words is right. An episode is played for each
question under each of INSTRUCTIONS. WordNet needs `apt-get` (`tests/helpers/lucene.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import datasets  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402

from helpers.lucene import wordnet  # noqa: E402
from prompt_coevo.adapters.trl.search_agent import exact_match, search_agent  # noqa: E402
from prompt_coevo.demo.smollm2 import default_folder  # noqa: E402
from prompt_coevo.demo.unnamed.values import CHAT  # noqa: E402
from prompt_coevo.retrieval.agent.instruction import SEARCH_INSTRUCTION  # noqa: E402
from prompt_coevo.retrieval.index.build import Request, build  # noqa: E402

Row: TypeAlias = dict[str, Any]

MODEL: Final = os.environ.get("COEVO_MODEL") or str(default_folder())
QUESTIONS = 16
INSTRUCTIONS: Final = (
    SEARCH_INSTRUCTION,
    "Search first, then answer with the word that the passage begins with. For example: "
    "<search> a young dog </search> <answer> puppy </answer>",
    "Which word is described? First write <search> the description </search>. When you see the passages, "
    "write <answer> the word </answer>.",
    "You may search with <search> and </search>. Give the answer inside <answer> and </answer>.",
    "Find the word. Two examples:\n\nthe young of a dog\n<search> the young of a dog </search>\n"
    "<information>puppy: the young of a dog</information>\n<answer> puppy </answer>\n\n"
    "a building for aircraft\n<search> a building for aircraft </search>\n"
    "<information>hangar: a building for aircraft</information>\n<answer> hangar </answer>\n\nNow:",
)


def world(folder: Path) -> tuple[Path, list[Row]]:
    """Make the index; return its folder and the questions, each a gloss of few words."""
    texts, _ = wordnet()
    corpus = folder / "corpus.jsonl"
    lines = (json.dumps({"id": str(row), "contents": text}) for row, text in enumerate(texts))
    corpus.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    build(corpus, folder / "index", Request("bm25"))
    pairs = [text.split(": ", 1) for text in texts]
    short = [(words, gloss) for words, gloss in pairs if 4 <= len(gloss.split()) <= 9]
    chosen = random.Random(0).sample(short, QUESTIONS)
    rows = [
        {"prompt": [{"role": "user", "content": gloss}], "golden_answers": words.split(", ")}
        for words, gloss in chosen
    ]
    return folder / "index", rows


def make_trainer(index: Path, rows: Sequence[Row], folder: Path) -> Any:
    torch.manual_seed(0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    tokenizer.chat_template = CHAT
    trainer = trl.GRPOTrainer(
        model=transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32),
        processing_class=tokenizer,
        reward_funcs=exact_match("golden_answers"),
        train_dataset=datasets.Dataset.from_list(list(rows)),
        rollout_func=search_agent(
            index=index, k=2, max_turns=1, turn_tokens=48, observation_tokens=80
        ),
        args=trl.GRPOConfig(
            output_dir=str(folder / "out"),
            per_device_train_batch_size=8,
            max_completion_length=200,
            use_cpu=not torch.cuda.is_available(),
            bf16=False,
            report_to="none",
        ),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def play(trainer: Any, instruction: str, rows: Sequence[Row]) -> Row:
    """Play an episode per question; return the shares that searched, answered, and were right."""
    prompts = [
        [{"role": "user", "content": f"{instruction}\n\n{row['prompt'][0]['content']}"}]
        for row in rows
    ]
    with torch.no_grad():
        found = trainer.rollout_func(prompts, trainer)
    right = trainer.reward_funcs[0](
        completions=found["completion_ids"],
        search_answer=found["search_answer"],
        golden_answers=[row["golden_answers"] for row in rows],
    )
    said = trainer.processing_class.batch_decode(found["completion_ids"][:3])
    return {
        "instruction": instruction,
        "searched": statistics.fmean(count > 0 for count in found["searches"]),
        "answered": statistics.fmean(one is not None for one in found["search_answer"]),
        "right": statistics.fmean(right),
        "said": said,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        index, rows = world(Path(name))
        trainer = make_trainer(index, rows, Path(name))
        results = {"untrained": [play(trainer, one, rows) for one in INSTRUCTIONS]}
    print(json.dumps(results, indent=1))
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
