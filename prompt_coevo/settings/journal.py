"""What a run's journal holds: the section `journal`."""

from __future__ import annotations

from pydantic import Field

from prompt_coevo.settings.section import Section


class JournalSettings(Section):
    """What a run's journal holds."""

    max_file_mb: float = Field(default=64.0, gt=0.0)
    """A file of more megabytes is put aside as `events.0001.jsonl` and so on, and a new one begun."""
    max_text_chars: int = Field(default=20_000, ge=100)
    """Longer texts (a reflection prompt, a reply, a completion) are cut."""
