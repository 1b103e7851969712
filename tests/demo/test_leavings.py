"""What the demo leaves in its folder, from results that are made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plots import Line, draw

from prompt_coevo import Coevolution, Settings
from prompt_coevo.demo.leavings import leave
from prompt_coevo.demo.results import ArmResult, Cracked, Share, WordScore
from prompt_coevo.testing.scripted_world import ScriptedPolicy


def result(name: str, right: tuple[int, ...]) -> ArmResult:
    words = {kind: WordScore(kind, 10, right) for kind in ("hard", "medium", "easy")}
    return ArmResult(
        arm=name,
        seed=0,
        draw=0,
        budget=400,
        spent=(0, 200, 400),
        words=words,
        last={"longer": Share(1, 10)},
        train_rollouts=400,
        other_rollouts=0,
        batches=0,
        calls=3,
        tokens=50,
        seconds=1.0,
        cpu_seconds=1.0,
        cracked=(Cracked("a [bold]template", "use val", "1 2"),) if name == "stream" else (),
    )


def test_the_folder_has_a_table_the_numbers_a_picture_and_a_report(tmp_path: Path) -> None:
    results = [result("grpo", (0, 0, 1)), result("stream", (0, 4, 9))]
    settings = Settings(
        algorithms="inspo",
        inspo={"instruction": "Think <twice>."},
        reflection={"model": "openai/teacher"},
        preflight={"reflection": "off"},
    )
    engine = Coevolution.from_settings(settings, output_dir=tmp_path / "stream-seed0")
    with ScriptedPolicy().open() as policy:
        engine.begin(policy)
        engine.end(policy)
    paths = leave(results, tmp_path, "prompt-coevo demo")
    names = ["table.txt", "results.json", "demo.png", "report.html"]
    assert [path.name for path in paths] == names
    assert "Think &lt;twice&gt;." in paths[3].read_text("utf-8")
    table = paths[0].read_text("utf-8")
    assert "0.90" in table
    assert "a [bold]template" in table  # a template is no markup
    assert "\x1b" not in table
    numbers = json.loads(paths[1].read_text("utf-8"))
    assert numbers["command"] == "prompt-coevo demo"
    assert numbers["summary"]["stream"]["hard"] == 0.9
    assert paths[2].read_bytes().startswith(b"\x89PNG")


def test_the_same_runs_give_the_same_picture_and_lines_are_told_apart_without_colour(
    tmp_path: Path,
) -> None:
    names = ("GRPO", "P2O", "another")
    lines = [Line(name, [([0, 400], [0.0, 0.1 * n])], 400) for n, name in enumerate(names)]
    for name in ("one.svg", "two.svg"):
        draw({"hard words": lines, "easy words": lines[1:]}, tmp_path / name, "accuracy")
    one = (tmp_path / "one.svg").read_bytes()
    assert one == (tmp_path / "two.svg").read_bytes()
    assert b"<!-- accuracy -->" in one  # what the axis shows
    # Dashes are written down for all lines but the solid one.
    assert one.count(b"stroke-dasharray") >= 4
    for name in names:
        assert f"<!-- {name} -->".encode() in one


def test_a_line_without_runs_is_left_out(tmp_path: Path) -> None:
    draw({"": [Line("nobody", [], 0), Line("P2O", [([0, 9], [0, 1])], 9)]}, tmp_path / "x.svg", "y")
    assert b"<!-- nobody -->" not in (tmp_path / "x.svg").read_bytes()


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_ending_says_the_format(tmp_path: Path, ending: str) -> None:
    draw({"": [Line("P2O", [([0, 9], [0, 1])], 9)]}, tmp_path / f"x.{ending}", "y")
    start = (tmp_path / f"x.{ending}").read_bytes()[:5]
    assert start == {"png": b"\x89PNG\r", "svg": b"<?xml"}[ending]
