# /// script
# dependencies = ["datasets", "math-verify", "pandas", "pyarrow"]
# ///
"""P2O's training and test sets (arXiv 2603.21877, section 4.1) in the formats of VeRL, OpenRLHF and TRL.

python docs/examples/p2o_data.py deepscaler --out ~/data/deepscaler
python docs/examples/p2o_data.py deepmath --out ~/data/deepmath

A dataset is read from a folder of its name below the current one, or from the Hugging Face Hub.
"""

import argparse
from pathlib import Path

import pandas as pd
from datasets import load_dataset
from p2o_reward import graded

INSTRUCTION = "Please reason step by step, and put your final answer within \\boxed{}."
TRAIN = {
    "deepscaler": "agentica-org/DeepScaleR-Preview-Dataset",
    "deepmath": "zwhe99/DeepMath-103K",
}
# The paper samples 16 responses to a question in sets below 100 questions, and one greedily in larger sets.
TESTS = {
    "test_small": {
        "aime24": ("HuggingFaceH4/aime_2024", "train"),
        "aime25": ("math-ai/aime25", "test"),
        "amc23": ("math-ai/amc23", "test"),
    },
    "test_large": {
        "math500": ("HuggingFaceH4/MATH-500", "test"),
        "minerva": ("math-ai/minervamath", "test"),
        "olympiad": ("math-ai/olympiadbench", "test"),
    },
}


def read(path, split, source):
    """Yield source, question and answer, whatever the columns are called."""
    rows = load_dataset(path, split=split)
    names = {"problem", "question", "answer", "final_answer", "difficulty"}
    for row in rows.select_columns([name for name in rows.column_names if name in names]):
        answer = row["answer"] if "answer" in row else row["final_answer"]
        yield {
            "source": source,
            "question": row.get("problem") or row.get("question"),
            "answer": ", ".join(answer) if isinstance(answer, list) else str(answer),
            "difficulty": row.get("difficulty"),
        }


def drawn(name, count, seed):
    """Draw questions at random. The paper: any of DeepScaleR, of DeepMath those of difficulty 7 or more.

    A question is left out if its own answer would earn no reward, which would make it hard for ever.
    """
    rows = pd.DataFrame(read(TRAIN[name], "train", name))
    if name == "deepmath":
        rows = rows[rows["difficulty"] >= 7]
    kept, unreadable = [], 0
    for row in rows.sample(frac=1, random_state=seed).to_dict("records"):
        if len(kept) == count:
            break
        if row["question"] and graded(f"\\boxed{{{row['answer']}}}", row["answer"]):
            kept.append(row)
        else:
            unreadable += 1
    print(f"{name}: {len(kept)} questions; left out {unreadable} whose answer cannot be checked")
    return kept


def write(rows, out, name):
    prompts = [f"{row['question']}\n{INSTRUCTION}" for row in rows]
    sources = [row["source"] for row in rows]
    answers = [row["answer"] for row in rows]
    verl = {
        "data_source": sources,
        "prompt": [[{"role": "user", "content": prompt}] for prompt in prompts],
        "reward_model": [{"style": "rule", "ground_truth": answer} for answer in answers],
    }
    openrlhf = {"datasource": sources, "prompt": prompts, "label": answers}
    trl = {"problem": [row["question"] for row in rows], "answer": answers}
    pd.DataFrame(verl).to_parquet(out / "verl" / f"{name}.parquet")
    for trainer, columns in (("openrlhf", openrlhf), ("trl", trl)):
        path = out / trainer / f"{name}.jsonl"
        pd.DataFrame(columns).to_json(path, orient="records", lines=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", choices=TRAIN)
    parser.add_argument("--out", type=Path, required=True, help="a folder; it gets one per trainer")
    parser.add_argument("--questions", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for trainer in ("verl", "openrlhf", "trl"):
        (args.out / trainer).mkdir(parents=True, exist_ok=True)
    write(drawn(args.dataset, args.questions, args.seed), args.out, "train")
    for name, sets in TESTS.items():
        rows = [row for source, place in sets.items() for row in read(*place, source)]
        write(rows, args.out, name)


if __name__ == "__main__":
    main()
