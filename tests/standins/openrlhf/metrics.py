"""Replace TensorBoard: metrics go to `metrics.jsonl` in its folder, texts to `texts.jsonl`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class JsonLinesLogger:
    """Write one line per call, `{"step": …, "data": {tag: value}}` with TensorBoard's tags."""

    def __init__(self, args: Any) -> None:
        self._path = Path(args.logger.tensorboard_dir) / "metrics.jsonl"
        self.writer = TextWriter(self._path.with_name("texts.jsonl"))

    def log_train(self, global_step: int, logs_dict: dict[str, Any]) -> None:
        numbers = {name: value for name, value in logs_dict.items() if name != "generated_samples"}
        self._append("train", global_step, numbers)

    def log_eval(self, global_step: int, logs_dict: dict[str, Any]) -> None:
        self._append("eval", global_step, logs_dict)

    def close(self) -> None: ...

    def _append(self, kind: str, step: int, values: dict[str, Any]) -> None:
        data = {f"{kind}/{name}": float(v) for name, v in values.items() if v is not None}
        with self._path.open("a") as file:
            file.write(json.dumps({"step": step, "data": data}) + "\n")


class TextWriter:
    """The part of a SummaryWriter that takes texts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add_text(self, tag: str, text_string: str, global_step: int) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps({"step": global_step, "tag": tag, "text": text_string}) + "\n")

    def flush(self) -> None: ...


def replace_tensorboard(module: Any) -> None:
    """Replace `TensorboardLogger` of `openrlhf.utils.logging_utils`."""
    module.TensorboardLogger = JsonLinesLogger
