"""The README's first screen, and that its numbers are those of the records."""

from __future__ import annotations

import json
import re

from helpers.documented import ROOT

README = (ROOT / "README.md").read_text("utf-8")
SCREEN = README.split("**More of TRL:**")[0]
DEMO = (ROOT / "docs" / "demo.md").read_text("utf-8").split("## How long it takes")[1]
RECORDS = ROOT / "benchmarks" / "results" / "methods_transformer.jsonl"


def seconds(arm: str, of: str) -> tuple[int, int]:
    """The shortest and the longest of the recorded runs."""
    records = map(json.loads, RECORDS.read_text("utf-8").splitlines())
    taken = [record[of] for record in records if record.get("arm") == arm]
    return round(min(taken)), round(max(taken))


def test_what_it_is_and_for_whom_stands_before_any_command() -> None:
    before = SCREEN.split("```")[0]
    for part in (
        "a plugin for\nyour existing trainer",
        "For people who",
        "**P2O**",
        "**stream**",
        "**INSPO**",
    ):
        assert part in before, part
    assert len(re.findall(r"^!\[", before, re.MULTILINE)) == 1


def test_the_first_screen_has_one_callback_and_two_commands() -> None:
    assert len(SCREEN.splitlines()) <= 45
    assert len(re.findall(r"^```python$", SCREEN, re.MULTILINE)) == 1
    assert re.findall(r"^```bash\n(.*?)\n```$", SCREEN, re.MULTILINE | re.DOTALL) == [
        "python dev.py demo",
        "python dev.py test",
    ]


def test_the_demos_time_is_that_of_the_recorded_runs() -> None:
    grpo, stream = seconds("grpo", "cpu_seconds"), seconds("stream", "cpu_seconds")
    told = " ".join(SCREEN.split())
    assert f"of {min(*grpo, *stream)} to {max(*grpo, *stream)} [seconds of CPU time]" in told
    text = " ".join(DEMO.split())
    assert f"took {grpo[0]} to {grpo[1]} seconds of CPU time" in text
    assert f"one of stream {stream[0]} to {stream[1]}" in text
    clock = (*seconds("grpo", "seconds"), *seconds("stream", "seconds"))
    assert "by the clock {} to {} and {} to {}".format(*clock) in text


def test_the_papers_beside_it_are_there() -> None:
    for name in ("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "PACKAGE.md"):
        assert (ROOT / name).stat().st_size > 300, name
