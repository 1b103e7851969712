"""Check the README's order and length, and that its numbers match the records."""

from __future__ import annotations

import json
import re

from helpers.documented import ROOT

README = (ROOT / "README.md").read_text("utf-8")
DEMO = (ROOT / "docs" / "quickstart.md").read_text("utf-8").split("## The demo")[1]
RECORDS = ROOT / "benchmarks" / "results" / "methods_transformer.jsonl"


def seconds(arm: str, of: str) -> tuple[int, int]:
    """Return the shortest and longest recorded run times."""
    records = map(json.loads, RECORDS.read_text("utf-8").splitlines())
    taken = [record[of] for record in records if record.get("arm") == arm]
    return round(min(taken)), round(max(taken))


def test_what_it_is_stands_before_any_command_with_a_picture() -> None:
    before = README.split("```")[0]
    for part in (
        "a plugin for\nTRL, VeRL and OpenRLHF",
        "every rollout fails",
        "trains the weights",
    ):
        assert part in before, part
    assert len(re.findall(r"^!\[.{40,}\]", before, re.MULTILINE)) == 1


def test_it_is_short_and_in_the_order_in_which_one_asks() -> None:
    read = re.sub(r"```.*?```|<!--.*?-->|\]\([^)]*\)", " ", README, flags=re.DOTALL)
    assert len(re.findall(r"\w[\w'.-]*", read)) <= 700
    assert re.findall(r"^## (.*)$", README, re.MULTILINE) == [
        "Install",
        "Use",
        "What you see",
        "What it costs",
        "Status",
        "When not to use it",
        "Methods",
        "Try it",
    ]


def test_there_is_one_callback_and_the_two_commands_are_last() -> None:
    assert len(re.findall(r"^```python$", README, re.MULTILINE)) == 1
    commands = re.findall(r"^```bash\n(.*?)\n```$", README, re.MULTILINE | re.DOTALL)
    assert commands[-2:] == ["python dev.py demo", "python dev.py test"]


def test_the_demos_time_is_that_of_the_recorded_runs() -> None:
    grpo, stream = seconds("grpo", "cpu_seconds"), seconds("stream", "cpu_seconds")
    told = " ".join(README.split())
    assert f"of {min(*grpo, *stream)} to {max(*grpo, *stream)} [seconds of CPU time]" in told
    text = " ".join(DEMO.split())
    assert f"took {grpo[0]} to {grpo[1]} seconds of CPU time" in text
    assert f"one of stream {stream[0]} to {stream[1]}" in text
    clock = (*seconds("grpo", "seconds"), *seconds("stream", "seconds"))
    assert "by the clock {} to {} and {} to {}".format(*clock) in text


def test_the_papers_beside_it_are_there() -> None:
    for name in ("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "PACKAGE.md"):
        assert (ROOT / name).stat().st_size > 300, name
