"""Run TRL's own tests without our callback, with an idle one and with an active one, and compare.

    python tools/own_tests.py CHECKOUT [--json FILE] [ARGUMENTS FOR PYTEST]

`CHECKOUT` is a source tree of TRL in the installed version: its releases do not contain its tests. They
ask the model hub for tiny models and a data set; here these are built locally, with random weights,
under the same names. Tests that need others fail without us, too, and count as such. Exits with 1 if a
test passes without us and fails with us.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

FILES: Final = ("test_grpo_trainer.py", "test_rloo_trainer.py")
WAYS: Final = ("without", "idle", "active")
ORGANISATION: Final = "trl-internal-testing"
_CHAT: Final = (
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{%- endfor %}{%- if add_generation_prompt %}<|im_start|>assistant\n{%- endif %}"
)
_PROMPTS: Final = [
    "Beautiful is better than", "Explicit is", "Simple is better", "Complex", "Flat is better than",
    "Sparse is better", "Readability", "Special cases aren't special", "Although practicality beats",
    "Errors should never", "Unless explicitly", "In the face of ambiguity, refuse", "There should be one",
    "Although that way may not be", "Now is better", "Although never is often", "If the implementation is",
    "Namespaces are one honking", "Beautiful is",
]  # fmt: skip


def make_stand_ins(folder: Path) -> None:
    """Make what the tests request from the hub, as folders of the same names below `folder`."""
    make_data(folder / ORGANISATION / "zen")
    make_models(folder / ORGANISATION)


def make_data(folder: Path) -> None:
    """Write the data set of prompts, in two forms with two splits."""
    forms = {
        "standard_prompt_only": [{"prompt": text} for text in _PROMPTS],
        "conversational_prompt_only": [
            {"prompt": [{"role": "user", "content": f"{text} what?"}]} for text in _PROMPTS
        ],
    }
    card = ["---", "configs:"]
    for name, rows in forms.items():
        (folder / name).mkdir(parents=True)
        card += [f"- config_name: {name}", "  data_files:"]
        for split, part in (("train", rows[:-2]), ("test", rows[-2:])):
            lines = "".join(f"{json.dumps(row)}\n" for row in part)
            (folder / name / f"{split}.jsonl").write_text(lines, encoding="utf-8")
            card += [f"  - split: {split}", f"    path: {name}/{split}.jsonl"]
    (folder / "README.md").write_text("\n".join([*card, "---", ""]), encoding="utf-8")


def make_models(folder: Path) -> None:
    """Write tiny policies and reward models with random weights, and their tokenizer."""
    import torch
    import transformers as hf

    tokenizer = make_tokenizer()
    size = {
        "vocab_size": len(tokenizer), "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2048,
        "pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": None,
    }  # fmt: skip
    moe = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8}
    families = {
        "tiny-Qwen2{}-2.5": (hf.Qwen2Config, hf.Qwen2ForCausalLM, hf.Qwen2ForSequenceClassification, {}),
        "tiny-Qwen3{}": (hf.Qwen3Config, hf.Qwen3ForCausalLM, hf.Qwen3ForSequenceClassification, {}),
        "tiny-Llama{}-3.2": (hf.LlamaConfig, hf.LlamaForCausalLM, hf.LlamaForSequenceClassification, {}),
        "tiny-Mistral{}-0.2": (hf.MistralConfig, hf.MistralForCausalLM, None, {}),
        "tiny-Qwen3Moe{}": (hf.Qwen3MoeConfig, hf.Qwen3MoeForCausalLM, None, moe),
    }  # fmt: skip
    torch.manual_seed(0)
    for name, (config, policy, reward, more) in families.items():
        for kind, model, labels in (
            ("ForCausalLM", policy, {}),
            ("ForSequenceClassification", reward, {"num_labels": 1}),
        ):
            if model is not None:
                path = folder / name.format(kind)
                model(config(**size, **more, **labels)).save_pretrained(path)
                tokenizer.save_pretrained(path)


def make_tokenizer() -> object:
    """Return a tokenizer of bytes and chat markers."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_ = Tokenizer(models.BPE({one: number for number, one in enumerate(letters)}, []))
    bytes_.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytes_, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    tokenizer.chat_template = _CHAT
    return tokenizer


def run(checkout: Path, folder: Path, way: str, options: list[str]) -> dict[str, str]:
    """Return each test's outcome: `passed`, `failed`, or `skipped`, with the first line of a message."""
    report = folder / f"{way}.xml"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "CI": "1", "COEVO_IN_TRL": way}
    command = [
        sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}",
        f"--rootdir={checkout}", "-W", "ignore", "--tb=line", "--continue-on-collection-errors",
    ]  # fmt: skip
    command += ["-p", "own_tests_plugin"]
    paths = [str(Path(__file__).parent.resolve()), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    files = [str(one) for name in FILES if (one := checkout / "tests" / name).exists()]
    subprocess.run([*command, *files, *options], cwd=folder, env=environment, check=False)
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        outcome = "passed"
        for kind in ("failure", "error", "skipped"):
            if (told := case.find(kind)) is not None:
                message = (told.get("message") or "").splitlines() or [""]
                outcome = f"{'skipped' if kind == 'skipped' else 'failed'}: {message[0][:200]}"
        found[f"{case.get('classname')}::{case.get('name')}"] = outcome
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--json", type=Path)
    arguments, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_stand_ins(folder)
        found = {way: run(arguments.checkout.resolve(), folder, way, options) for way in WAYS}
    passed = [name for name, outcome in found["without"].items() if outcome == "passed"]
    print(f"{len(passed)} of {len(found['without'])} tests pass without the callback")
    broken = 0
    for way in WAYS[1:]:
        others = {name: found[way].get(name, "failed: not run") for name in passed}
        refused = [
            name for name, outcome in others.items() if outcome.startswith("skipped: refused")
        ]
        lost = [
            name for name, outcome in others.items() if outcome != "passed" and name not in refused
        ]
        broken += len(lost)
        print(f"{way}: {len(refused)} of them are refused with a sentence, {len(lost)} fail")
        for name in [*refused, *lost]:
            print(f"  {name}: {others[name]}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
