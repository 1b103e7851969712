from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from omegaconf import OmegaConf
from PIL import Image
from verl.utils.dataset.rl_dataset import RLHFDataset

from prompt_coevo.adapters.verl.questions import index_questions
from prompt_coevo.settings import Settings

LOOPS = {"single_turn_agent"}


class Own(RLHFDataset):
    """A dataset class as `data.custom_cls` names one."""

    def __getitem__(self, item: int) -> dict[str, Any]:
        row: dict[str, Any] = super().__getitem__(item)
        return {**row, "raw_prompt": [{"role": "user", "content": f"changed {item}"}]}


def parquet(folder: Path) -> str:
    rows = [
        {
            "prompt": [{"role": "user", "content": f"{n}?"}],
            "reward_model": {"style": "rule", "ground_truth": str(n)},
            "extra_info": {"index": n},
        }
        for n in range(30)
    ]
    Dataset.from_list(rows).to_parquet(path := str(folder / "train.parquet"))
    return path


def dataset(kind: type[RLHFDataset], folder: Path) -> RLHFDataset:
    config = {"prompt_key": "prompt", "filter_overlong_prompts": False, "cache_dir": str(folder)}
    return kind(parquet(folder), None, OmegaConf.create(config))


def test_the_index_is_that_of_the_rows_that_verl_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = dataset(RLHFDataset, tmp_path)
    given = [rows[number] for number in range(len(rows))]
    monkeypatch.setattr(RLHFDataset, "__getitem__", lambda *_: pytest.fail("looked up"))
    index = index_questions(rows, Settings(), LOOPS, 4)
    assert index.ids_of(given) == index.ids() == [index.id_at(n) for n in range(30)]


def test_a_dataset_class_of_the_users_is_asked_for_its_rows(tmp_path: Path) -> None:
    rows = dataset(Own, tmp_path)
    index = index_questions(rows, Settings(), LOOPS, 4)
    assert index.ids_of([rows[number] for number in range(len(rows))]) == index.ids()
    assert index.question(index.id_at(3)).prompt == [{"role": "user", "content": "changed 3"}]


def as_bytes(image: Image.Image) -> dict[str, bytes]:
    file = BytesIO()
    image.save(file, "PNG")
    return {"bytes": file.getvalue()}


@pytest.mark.parametrize("store", [as_bytes, lambda image: image], ids=["bytes", "opened"])
def test_questions_about_images_are_known_again(
    store: Callable[[Image.Image], object], tmp_path: Path
) -> None:
    """VeRL reopens an image each time that it returns a row."""
    data = [
        {
            "prompt": [{"role": "user", "content": "<image>which shade?"}],
            "images": [store(Image.new("RGB", (4, 4), (shade, 0, 0)))],
            "reward_model": {"style": "rule", "ground_truth": "red"},
        }
        for shade in (10, 200)
    ]
    Dataset.from_list(data).to_parquet(path := str(tmp_path / "images.parquet"))
    config = {"prompt_key": "prompt", "filter_overlong_prompts": False, "cache_dir": str(tmp_path)}
    rows = RLHFDataset(path, None, OmegaConf.create(config), processor=object())
    index = index_questions(rows, Settings(), LOOPS, 4)
    assert len(set(index.ids())) == 2
    assert index.ids_of([rows[0], rows[1]]) == index.ids()
    assert index.question(index.id_at(1)).prompt[0]["content"][1]["text"] == "which shade?"  # type: ignore[index]
