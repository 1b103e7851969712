"""Check the files that the demo writes, from invented results."""

from __future__ import annotations

import json
from pathlib import Path

from prompt_coevo import Coevolution, Settings
from prompt_coevo.demo.outputs import leave
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
