"""A BERT that is made on the spot encodes a query and two passages."""

from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from prompt_coevo.retrieval.dense.encoders import load

words = ["[PAD]", "[UNK]", "query", "passage", ":", "cats", "dogs", "sleep", "bark"]
tokenizer = Tokenizer(
    models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]")
)
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
folder = Path("encoder")
PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]"
).save_pretrained(folder)
shape = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
BertModel(BertConfig(vocab_size=len(words), **shape)).save_pretrained(folder)
encoder = load("mean:encoder")
query = encoder.encode_queries(["cats sleep"])
passages = encoder.encode_passages(["cats sleep", "dogs bark"])
assert query.shape == (1, 32)
assert passages.shape == (2, 32)
print("vectors of 32 numbers")
