"""TensorBoard, through the trainer's own SummaryWriter."""

from __future__ import annotations

from typing import Protocol

from prompt_coevo.adapters.common.trackers.tables import Tables


class Writer(Protocol):
    """A SummaryWriter of torch or of tensorboardX."""

    def add_text(self, tag: str, text_string: str, global_step: int, /) -> None: ...

    def flush(self) -> None: ...


class TensorBoard:
    """Logs Markdown."""

    name = "TensorBoard"

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def write(self, tables: Tables, step: int) -> None:
        self._writer.add_text("coevo/in_use", tables.in_use_markdown(), step)
        self._writer.add_text("coevo/lineage", tables.lineage_markdown(), step)
        self._writer.flush()
