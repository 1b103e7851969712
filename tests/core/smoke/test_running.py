"""Check the smoke test's frame with real processes: what it runs, ends, refuses, judges and writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo.smoke.checks import checks, no_trace
from prompt_coevo.smoke.parts import INSPO, STEPS, STREAM, WAVES, Adapter, Evidence, Variant
from prompt_coevo.smoke.running import LOG, Outcome, end, missing, run_all
from prompt_coevo.smoke.table import markdown

GOOD: dict[str, Any] = {
    "losses": [0.0] * STEPS,
    "gradients": [0.0] * (STEPS - 1) + [0.5],
    "metrics": {"cover_templates": 2.0},
    "templated": 0.5,
    "prompts": 8,
}
LEAVES = f"from pathlib import Path; Path('left.json').write_text({json.dumps(GOOD)!r})"


def adapter(*variants: Variant, packages: tuple[str, ...] = ()) -> Adapter:
    """Build an adapter whose variants are Python scripts that leave their evidence unchanged."""
    return Adapter(
        "trl",
        "An adapter",
        packages,
        {"vllm": "prompt-coevo[vllm]"},
        variants,
        lambda variant, folder, cpu: ([sys.executable, "-c", str(variant.host)], {"MINE": "1"}),
        lambda variant, folder: Evidence(**json.loads((folder / "left.json").read_text())),
        "saved/*",
        "weights",
    )


def script(name: str, code: str, **changes: Any) -> Variant:
    return Variant(name, "a script", WAVES, code, **{"on_cpu": True, **changes})  # type: ignore[arg-type]


def outcomes(folder: Path, *variants: Variant, limit_s: float = 60.0) -> list[Outcome]:
    return list(run_all(adapter(*variants), variants, folder, limit_s, []))


def test_a_run_that_leaves_what_it_should_works(tmp_path: Path) -> None:
    (outcome,) = outcomes(tmp_path, script("good", LEAVES))
    assert outcome.state == "works"
    assert outcome.said == (
        f"{STEPS} steps, losses finite; gradient up to 0.5; the search found 2 templates; up to 50% of a "
        "step under templates; 8 of 8 rows trained on the bare question"
    )


def test_one_that_fails_is_told_in_a_sentence_and_the_next_one_runs(tmp_path: Path) -> None:
    code = "print('x'); raise ValueError('no \\x1b[31m GPU')"
    failed, works = outcomes(tmp_path, script("bad", code), script("good", LEAVES))
    assert (failed.state, works.state) == ("failed", "works")
    log = tmp_path / "bad" / LOG
    assert failed.said == f"exit status 1: ValueError: no ⟨U+001B⟩[31m GPU; see {log}"
    assert "Traceback" in log.read_text()


def test_one_that_hangs_is_ended(tmp_path: Path) -> None:
    (outcome,) = outcomes(tmp_path, script("hangs", "import time; time.sleep(3600)"), limit_s=0.5)
    assert outcome.state == "failed"
    assert outcome.said.startswith("it was not over after 0.5 s and was ended; see ")


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux")
def test_what_left_its_session_is_ended_too(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "child = [sys.executable, '-c', 'import time; time.sleep(3600)']\n"
        "pid = subprocess.Popen(child, start_new_session=True).pid\n"
        f"{LEAVES}; Path('pid').write_text(str(pid))"
    )
    (outcome,) = outcomes(tmp_path, script("daemon", code))
    assert outcome.state == "works"
    while _lives(int((tmp_path / "daemon" / "pid").read_text())):
        time.sleep(0.05)  # for ever, if it is left over


def test_what_it_started_is_ended_with_it(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(3600)"
    code = (
        "import subprocess, sys, time; from pathlib import Path\n"
        f"child = subprocess.Popen([sys.executable, '-c', {deaf!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline(); Path('part').write_text(str(child.pid)); Path('part').rename('pid')\n"
        "time.sleep(3600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, start_new_session=True)
    while not (tmp_path / "pid").exists():
        time.sleep(0.05)
    end(process)
    assert process.returncode == -signal.SIGTERM
    while _lives(int((tmp_path / "pid").read_text())):
        time.sleep(0.05)  # for ever, if it is left over


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("left", ["", "{", '{"losses": 1}', "[]"])
def test_what_cannot_be_read_has_failed(tmp_path: Path, left: str) -> None:
    code = f"from pathlib import Path; Path('left.json').write_text({left!r})"
    (outcome,) = outcomes(tmp_path, script("empty", code if left else "pass"))
    assert outcome.state == "failed"
    assert outcome.said.startswith("it ended well, but what it left cannot be read (")


def test_a_run_is_not_bent_by_the_users_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMPT_COEVO_SEED", "9")
    monkeypatch.setenv("RAY_ADDRESS", "ray://elsewhere")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    variants = (script("gpu", code, on_cpu=False),)
    list(run_all(adapter(*variants), variants, tmp_path, 60.0, ["3", "5"]))
    environment = json.loads((tmp_path / "gpu" / LOG).read_text())
    assert environment["CUDA_VISIBLE_DEVICES"] == "3"
    assert environment["HF_HUB_OFFLINE"] == environment["MINE"] == "1"
    assert environment["RAY_ADDRESS"] == "local"
    assert "PROMPT_COEVO_SEED" not in environment
    assert environment["PATH"] == os.environ["PATH"]


def test_what_is_not_there_says_what_to_install() -> None:
    vllm = script("vllm", "", packages=("vllm",))
    assert missing(adapter(), vllm, 1) == (
        "vllm not installed; run: pip install 'prompt-coevo[vllm]'"
    )
    assert missing(adapter(packages=("verl_no", "json")), script("x", ""), 1) == (
        "verl_no not installed; run: pip install 'prompt-coevo[trl]'"
    )
    assert missing(adapter(), script("x", "", on_cpu=False), 0) == "needs a GPU"
    assert missing(adapter(), script("x", ""), 0) is None


@pytest.mark.parametrize(
    ("needed", "on_cpu", "there", "said"),
    [
        (2, False, 0, "needs 2 GPUs"),
        (2, False, 1, "needs 2 GPUs"),
        (2, False, 2, None),
        (2, True, 0, None),  # two processes on a CPU
        (2, True, 1, "needs 2 GPUs"),
        (8, False, 2, "needs 8 GPUs"),
        (1, False, 8, None),
    ],
)
def test_a_variant_runs_where_there_are_gpus_enough(
    needed: int, on_cpu: bool, there: int, said: str | None
) -> None:
    assert missing(adapter(), script("x", "", on_cpu=on_cpu, gpus=needed), there) == said


@pytest.mark.parametrize("name", ["trl", "verl", "openrlhf"])
def test_every_trainer_has_the_switches_of_a_lab(name: str) -> None:
    found: Adapter = import_module(f"prompt_coevo.smoke.{name}").ADAPTER
    variants = {one.name: one for one in found.variants}
    assert len(variants) == len(found.variants)
    needed = {name: one.gpus for name, one in variants.items() if one.gpus > 1}
    several = {"ranks": 2, "tp2": 2, "ranks8": 8}
    assert needed == several | {"trl": {}, "verl": {"separate": 2}, "openrlhf": {"async": 2}}[name]
    for course in ("resume", "ghost", "speed"):
        assert variants[course].course == course
    if name != "trl":
        assert {"graphs", "async", "flash"} <= variants.keys()
        assert "flash_attn" in (*found.packages, *variants["flash"].packages)


KILLED_LATER = """
import json, time
from pathlib import Path
first = not Path("saved").exists()
with open("events.jsonl", "a") as journal:
    journal.write(json.dumps({"event": "started" if first else "resumed"}) + chr(10))
if first:
    Path("saved").mkdir()
    Path("saved/6").touch()
    time.sleep(3600)
"""


def test_a_run_is_killed_at_its_first_checkpoint_and_started_again(tmp_path: Path) -> None:
    half = json.dumps({**GOOD, "losses": [0.0] * (STEPS // 2), "before": STEPS - STEPS // 2})
    leaves = f"{KILLED_LATER}Path('left.json').write_text({half!r})"
    (good,) = outcomes(tmp_path, script("good", leaves, course="resume"))
    assert good.state == "works", good.said
    assert good.said.startswith(f"killed, resumed after step {STEPS // 2}; {STEPS // 2} steps, ")
    anew = f"{KILLED_LATER}Path('left.json').write_text({json.dumps(GOOD)!r})"
    over, forgot = outcomes(
        tmp_path,
        script("over", LEAVES, course="resume"),
        script("forgot", anew, course="resume"),
    )
    assert over.said.startswith("it was over before it could be killed; see ")
    assert forgot.said.startswith("not as it should be: killed, resumed after step 0; see ")


def test_the_time_of_a_step_is_told_and_fails_nothing(tmp_path: Path) -> None:
    """The bare run has no settings of this package, which would be in its folder."""
    code = f"{LEAVES}; import json, os; from pathlib import Path\n"
    code += "found = json.loads(Path('left.json').read_text())\n"
    code += "found['seconds'] = [9.0, 2.0 if Path.cwd().name == 'with' else 1.0, 0.0]\n"
    code += "Path('left.json').write_text(json.dumps(found))"
    (outcome,) = outcomes(tmp_path, script("speed", code, course="speed"))
    assert outcome.state == "works"
    assert outcome.said.startswith("2 s a step, 1 s without the plugin: 2.00 times; ")


def test_ghosts_that_leave_a_trace_are_found_out() -> None:
    """Twice the distance of bare runs, or 1 % of the training; more than a fifth in no case."""
    for distances, holds in {
        (0.0, 0.0, 1.0): True,
        (0.01, 0.0, 1.0): True,
        (0.011, 0.0, 1.0): False,
        (0.06, 0.03, 1.0): True,
        (0.061, 0.03, 1.0): False,
        (0.2, 0.2, 1.0): True,
        (0.21, 0.2, 1.0): False,
        (float("nan"), 0.0, 1.0): False,
    }.items():
        assert no_trace(*distances).holds == holds, distances


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"losses": [0.0] * (STEPS - 1) + [float("nan")]}, "a loss or a gradient is not finite"),
        ({"gradients": [float("inf")]}, "a loss or a gradient is not finite"),
        ({"losses": [0.0]}, f"1 steps were logged, and {STEPS} are expected"),
        ({"gradients": [0.0]}, "gradient up to 0"),
        ({"metrics": {}}, "the search found 0 templates"),
        ({"templated": 0.0}, "up to 0% of a step under templates"),
        ({"strangers": 1}, "7 of 8 rows trained on the bare question"),
        ({"prompts": 0}, "0 of 0 rows trained on the bare question"),
        (
            {"difference": float("nan"), "measure": "log-probs"},
            "sampler and trainer apart in log-probs nan",
        ),
    ],
)
def test_each_check_can_fail(changes: dict[str, Any], said: str) -> None:
    variant = script("x", "")
    assert all(check.holds for check in checks(variant, Evidence(**GOOD)))
    found = checks(variant, Evidence(**{**GOOD, **changes}))
    assert [check.said for check in found if not check.holds] == [said]


def test_what_is_checked_of_the_other_methods() -> None:
    stream, inspo = Variant("s", "", STREAM), Variant("i", "", INSPO)
    joined = Evidence(**{**GOOD, "metrics": {"templates_joined": 1.0}})
    assert "the search found 1 template" in [one.said for one in checks(stream, joined)]
    for metrics, holds in (({"evolutions": 2.0, "verify_rollouts": 9.0}, True), ({}, False)):
        evolved = Evidence(**{**GOOD, "metrics": metrics, "prompts": None, "templated": 0.0})
        assert all(one.holds for one in checks(inspo, evolved)) == holds


def test_the_table(tmp_path: Path) -> None:
    found = outcomes(tmp_path, script("good", LEAVES), script("gpu", "", on_cpu=False))
    told = [*found, Outcome(script("odd", ""), "failed", "a | b <img>", 2.4)]
    text = markdown(adapter(), told, "On a CPU")
    assert text.startswith("# Smoke: An adapter\n\nOn a CPU. prompt-coevo ")
    assert "\n**1 work, 1 failed, 1 not run.**\n" in text
    assert "| `gpu` | a script | not run |  | needs a GPU |" in text
    assert "| `odd` | a script | failed | 2 | a \\| b &lt;img> |" in text
