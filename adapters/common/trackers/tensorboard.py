"""TensorBoard, through the trainer's own SummaryWriter."""

from __future__ import annotations

from typing import Any

from prompt_coevo.adapters.common.trackers.tables import Tables


class TensorBoard:
    """Logs Markdown. `writer` is a SummaryWriter of torch or of tensorboardX."""

    name = "TensorBoard"

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, tables: Tables, step: int) -> None:
        self._writer.add_text("coevo/in_use", tables.in_use_markdown(), step)
        self._writer.add_text("coevo/lineage", tables.lineage_markdown(), step)
        self._writer.flush()
