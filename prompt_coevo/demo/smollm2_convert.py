"""Convert the language model in a GGUF file to a Hugging Face folder, with transformers and gguf."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

_CONTEXT: Final = 8192
_CONTROL: Final = 3  # llama.cpp's kind for tokens that are never text


def convert(gguf_file: Path, folder: Path) -> None:
    """Write model and tokenizer into a folder, in bfloat16. Uses no network."""
    tokenizer = read_tokenizer(gguf_file)
    read_model(gguf_file).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def read_model(gguf_file: Path) -> PreTrainedModel:
    """Load the model as an ordinary one; only rounding remains of the quantization."""
    import torch
    import transformers

    # Newer transformers keeps weights packed where it can, and then cannot save them.
    packing = getattr(transformers, "GgufConfig", None)
    unpacked = {"quantization_config": packing(dequantize=True)} if packing else {}
    return transformers.AutoModelForCausalLM.from_pretrained(
        gguf_file.parent,
        gguf_file=gguf_file.name,
        dtype=torch.bfloat16,
        local_files_only=True,
        **unpacked,
    )


def read_tokenizer(gguf_file: Path) -> PreTrainedTokenizerFast:
    """Build the tokenizer that the file describes: byte pieces, with each digit on its own.

    transformers can read one, too, but it does not split digits, and up to 5.15 uses the wrong end token.
    """
    from gguf import GGUFReader
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    fields = GGUFReader(gguf_file).fields

    def read(name: str) -> Any:
        return fields[f"tokenizer.{name}"].contents()

    tokens = read("ggml.tokens")
    special = [
        token
        for token, kind in zip(tokens, read("ggml.token_type"), strict=True)
        if kind == _CONTROL
    ]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    merges = [tuple(pair.split(" ")) for pair in read("ggml.merges")]
    backend = Tokenizer(models.BPE(vocabulary, merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(one, special=True, normalized=False) for one in special])
    names = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    fast = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=_CONTEXT,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        **{f"{ours}_token": tokens[read(f"ggml.{its}_token_id")] for ours, its in names.items()},
    )
    fast.chat_template = read("chat_template")
    return fast
