"""Check when texts are due, and how failing trackers are handled."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo import Coevolution, Settings
from prompt_coevo.adapters.common.trackers.tables import Tables
from prompt_coevo.adapters.common.trackers.texts import Texts, Writing


def engine_in(folder: Path | None, **settings: Any) -> Coevolution:
    function = {"reflection": {"function": str.lower}}
    return Coevolution.from_settings(Settings(**{**function, **settings}), output_dir=folder)


def joined(name: str, text: str = "a hint") -> dict[str, Any]:
    return {"template": name, "text": text, "tried": 4, "solved": 1}


def test_a_search_is_shown_at_once_and_single_templates_after_a_pause(tmp_path: Path) -> None:
    engine = engine_in(tmp_path)
    texts = Texts(engine)
    assert texts.due(1) is None
    engine.context.note("search_skipped", reason="few")
    assert texts.due(2) is not None
    engine.context.note("template_joined", **joined("a"))
    assert texts.due(3) is None
    assert texts.due(12).in_use[0][2] == "a"  # type: ignore[union-attr]
    assert texts.due(12, last=True) is None
    engine.context.note("template_joined", **joined("b"))
    assert texts.due(13, last=True) is not None


@pytest.mark.parametrize(
    ("event", "is_due"),
    [
        ("population_changed", True),
        ("templates_assigned", True),
        ("search_failed", True),
        ("instruction_weights", False),
        ("metrics", False),
    ],
)
def test_what_changes_the_texts_is_shown_at_once(event: str, is_due: bool, tmp_path: Path) -> None:
    engine = engine_in(tmp_path)
    texts = Texts(engine)
    engine.context.note("search_skipped", reason="few")
    assert texts.due(1) is not None
    engine.context.note(event)
    assert (texts.due(2) is not None) is is_due


def test_the_first_change_of_a_template_is_shown_at_once(tmp_path: Path) -> None:
    engine = engine_in(tmp_path)
    texts = Texts(engine)
    engine.context.note("template_joined", **joined("a"))
    assert texts.due(2) is not None


def test_switched_off_nothing_is_followed(tmp_path: Path) -> None:
    engine = engine_in(tmp_path, trackers=False)  # as YAML reads `off`
    texts = Texts(engine)
    engine.context.note("search_skipped", reason="few")
    assert engine.settings.trackers == "off"
    assert texts.due(5, last=True) is None


def test_keys_do_not_reach_a_tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret")
    engine = engine_in(tmp_path)
    texts = Texts(engine)
    engine.context.note("template_joined", **joined("a", "the key is sk-very-secret"))
    tables = texts.due(50)
    assert tables is not None
    assert "sk-very-secret" not in str(tables)
    assert "[api key]" in str(tables.in_use)


def test_an_event_of_another_form_does_no_harm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = engine_in(tmp_path)
    Texts(engine)
    engine.context.note("templates_assigned", pool=7)
    assert "cannot be shown in a tracker" in caplog.text


def test_a_resumed_run_leaves_out_what_came_after_its_checkpoint(tmp_path: Path) -> None:
    """The run resumes in another process, which knows the run only from its journal."""
    begins = {"event": "run_begins", "journal": 1, "attempt": 0, "step": 0}
    late = {"event": "template_joined", "attempt": 0, "step": 5, **joined("late")}
    events = [
        begins,
        {**late, "step": 2, "template": "early"},
        {"event": "reply", "step": 2, "request": "r"},
        {"event": "state_saved", "step": 3},
        late,
    ]
    (tmp_path / "coevo").mkdir()
    journal = tmp_path / "coevo" / "events.jsonl"
    journal.write_text("".join(json.dumps(event) + "\n" for event in events))
    engine = engine_in(tmp_path)
    texts = Texts(engine)
    resumed = {"event": "resumed", "journal": 1, "attempt": 1, "step": 3}
    engine.context.journal.write([resumed])
    tables = texts.due(3)
    assert tables is not None
    assert [cells[0] for cells in tables.lineage] == ["early"]
    engine.context.journal.write([{**late, "attempt": 1, "step": 4}])
    tables = texts.due(4, last=True)
    assert tables is not None
    assert [cells[0] for cells in tables.lineage] == ["early", "late"]


def test_a_journal_of_another_version_is_told_of_and_not_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "coevo").mkdir()
    (tmp_path / "coevo" / "events.jsonl").write_text('{"event": "run_begins", "journal": 7}\n')
    engine = engine_in(tmp_path)
    texts = Texts(engine)
    engine.context.journal.write([{"event": "resumed", "journal": 1, "attempt": 1, "step": 0}])
    assert texts.due(1) is None
    assert "has format 7" in caplog.text
    engine.context.note("template_joined", **joined("a"))
    assert texts.due(50) is not None


class Broken:
    name = "broken"
    calls = 0

    def write(self, tables: Tables, step: int) -> None:
        self.calls += 1
        raise OSError("the server is gone")


class Working:
    name = "working"
    steps: tuple[int, ...] = ()

    def write(self, tables: Tables, step: int) -> None:
        self.steps += (step,)


def test_a_tracker_that_fails_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    writing, broken, working = Writing(), Broken(), Working()
    with caplog.at_level(logging.WARNING):
        for step in (1, 2, 3):
            writing.write(Tables([], []), step, [broken, working])
    assert broken.calls == 1
    assert working.steps == (1, 2, 3)
    assert caplog.text.count("the server is gone") == 1
