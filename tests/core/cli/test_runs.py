"""Check the commands about a run's files: their output, and their one-sentence errors."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from helpers.journals import INSPO, P2O, STREAM, checked, run_in, write

CODE = "from prompt_coevo.cli import main; main()"
COMMAND = [sys.executable, "-P", "-c", CODE]


def run(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **options,
    )


def refused(*arguments: str | Path, **options: Any) -> str:
    """Return the one-sentence error."""
    failed = run(*arguments, **options)
    assert failed.returncode == 2, failed.stdout + failed.stderr
    (line,) = failed.stderr.strip().splitlines()
    assert line.startswith("error: ")
    return line


@pytest.fixture(scope="module")
def waves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("waves")
    run_in(folder, P2O)
    return folder


def test_the_best_is_told_and_explained(waves: Path) -> None:
    found = json.loads(run("best", waves, "--json").stdout)
    assert found["instruction"] is None
    (best, *_) = found["templates"]
    assert best["solved"] >= 1
    assert best["rollouts"] > 0
    assert 0 <= best["mean_reward"] <= 1
    assert best["evidence"]
    told = run("explain", waves / "coevo", best["id"][:9])
    assert told.returncode == 0
    assert not told.stderr
    for part in (
        best["text"],
        "it passed the gates",
        "What the reflection model was shown:",
        "<current_template>",
        "What it wrote:",
        f"<template>{best['text']}</template>",
        "Trial at step",
        "what is ",
        "rollouts of training",
        "What it cost",
        "0.0000 USD",
    ):
        assert part in told.stdout, part


def test_the_verdict_is_told_as_json(waves: Path) -> None:
    told = json.loads(run("report", waves, "--json").stdout)
    assert told["ended"] is True
    found = told["methods"]["p2o"]
    assert found["verdict"] == "cannot be told"
    assert "keeps no hard question without templates" in found["sentence"]
    assert found["solved_without_a_template"] + found["hard"] > 0
    assert told["reflection"]["calls"] > 0


@pytest.mark.parametrize("other", [["--serve"], ["--out", "page.html"]])
def test_the_verdict_as_json_writes_no_page(waves: Path, other: list[str]) -> None:
    assert "--json prints" in refused("report", waves, "--json", *other)


def test_the_best_instruction_is_told_with_its_weight(tmp_path: Path) -> None:
    run_in(tmp_path, INSPO)
    found = json.loads(run("best", tmp_path, "--json").stdout)["instruction"]
    published = (tmp_path / "coevo" / "best_instruction.txt").read_text()
    assert found["text"] == published
    assert f"instruction {found['id']}, weight " in run("best", tmp_path).stdout


def test_a_template_of_stream_is_told_without_trials_of_its_own(tmp_path: Path) -> None:
    joined = {"event": "template_joined", "template": "a", "tried": 1, "solved": 1}
    reply = {"event": "reply", "request": "r", "call": 1, "text": "x"}
    uses = {"event": "rewards", "step": 1, "uses": [["q", "a", 1, 1.0]]}
    write(tmp_path, [reply, checked("a", "x"), joined, uses])
    told = run("explain", tmp_path, "a").stdout
    assert "in use (on trial 1 of 1 rollouts succeeded" in told
    assert "  in 1 rollout of training, on 1 question:\n" in told
    assert told.endswith("What it cost\n  1 call, 0 tokens in, 0 out, 0.0000 USD\n")
    assert "template a, solves 1 question:\n" in run("best", tmp_path).stdout


def test_a_trial_is_told_once(tmp_path: Path) -> None:
    judged = {"questions": ["q"], "parent_rewards": [0.0], "rewards": [1.0]}
    verified = {"event": "candidate_verified", "candidate": "a", "parent": "b", "accepted": True}
    write(tmp_path, [checked("a", "x"), {**verified, **judged}])
    told = run("explain", tmp_path, "a").stdout
    means = "won its trial (mean reward 1 on 1 question, its parent's 0)"
    assert told.startswith(f"template a: {means}\n")
    assert "Trial at step 0 against b: it won\n  0 -> 1  q\n" in told
    assert told.count("mean reward") == 2  # as its state, and as a turn
    assert "judged in trials: 1\n" in told


def test_a_difference_is_told_word_by_word(tmp_path: Path) -> None:
    write(tmp_path, [checked("aaaa", "think of one thing"), checked("bbbb", "think of two things")])
    shown = run("diff", tmp_path, "aa", "bb").stdout.splitlines()
    assert shown == ["[-aaaa-] {+bbbb+}", "think of [-one-]{+two+} [-thing-]{+things+}"]


def test_an_id_made_by_hand_cannot_act_on_a_terminal(tmp_path: Path) -> None:
    write(tmp_path, [checked("aa\x1b[31m", "one"), checked("bbbb", "two")])
    assert "\x1b" not in run("diff", tmp_path, "aa", "bb").stdout


def test_the_latest_events_are_told_a_line_each(waves: Path) -> None:
    shown = run("tail", waves, "-n", "3").stdout.splitlines()
    assert len(shown) == 3
    assert shown[-1].startswith("0.9  training_ended")
    assert not [line for line in shown if line.endswith(" ")]


def test_what_is_no_event_is_told_as_such(tmp_path: Path) -> None:
    folder = write(tmp_path, [])
    (folder / "events.jsonl").write_text('{"event": ["a list"]}\n[]\n{"event": "summ\n')
    shown = run("tail", tmp_path, "--no-follow")
    assert shown.stdout.splitlines() == ["?  unreadable  a line that is no event"] * 3


def test_a_run_that_goes_on_is_followed_until_it_ends(tmp_path: Path) -> None:
    folder = write(tmp_path, [checked("a", "x")])
    tail = subprocess.Popen([*COMMAND, "tail", tmp_path], stdout=subprocess.PIPE, text=True)
    assert tail.stdout is not None
    assert "run_begins" in tail.stdout.readline()
    assert "candidate_checked" in tail.stdout.readline()
    with (folder / "events.jsonl").open("a") as file:
        file.write('{"event": "tem')  # the other half comes later
        file.flush()
        time.sleep(0.7)
        file.write('plate_joined", "attempt": 0, "step": 4}\n')
    os.replace(folder / "events.jsonl", folder / "events.0001.jsonl")  # as a long journal is
    (folder / "events.jsonl").write_text('{"event": "training_ended", "attempt": 0, "step": 5}\n')
    rest, _ = tail.communicate(timeout=60)
    assert [line.split("  ")[:2] for line in rest.splitlines()] == [
        ["0.4", "template_joined"],
        ["0.5", "training_ended"],
    ]
    assert tail.returncode == 0


def test_a_refused_run_is_followed_no_further(tmp_path: Path) -> None:
    write(tmp_path, [{"event": "run_refused", "reason": "no model answers"}])
    assert "no model answers" in run("tail", tmp_path).stdout


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egood\rbad\x00"


@pytest.mark.parametrize("command", ["explain", "diff", "best", "tail"])
def test_nothing_that_a_model_wrote_acts_on_the_terminal(command: str, tmp_path: Path) -> None:
    joined = {"event": "template_joined", "template": "a", "tried": 1, "solved": 1}
    reply = {"event": "reply", "request": "r", "call": 1, "text": HOSTILE, "error": HOSTILE}
    refusal = checked("b", "b" + HOSTILE, reason=f"no {HOSTILE}")
    odd = {"event": HOSTILE, HOSTILE: HOSTILE}
    write(tmp_path, [reply, checked("a", HOSTILE), joined, refusal, odd])
    ids = {"explain": ["b"], "diff": ["a", "b"], "tail": ["--no-follow"]}.get(command, [])
    shown = subprocess.run([*COMMAND, command, tmp_path, *ids], capture_output=True, check=False)
    assert shown.returncode == 0, shown.stderr
    text = shown.stdout.decode()
    assert "U+001B" in text
    assert not [char for char in text if not char.isprintable() and char not in "\n⟨⟩"]


def test_colours_are_for_terminals_that_have_them(tmp_path: Path) -> None:
    write(tmp_path, [checked("aaaa", "one"), checked("bbbb", "two")])
    for variables, coloured in (
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
    ):
        environment = {**os.environ, "NO_COLOR": "", **variables}
        ours, theirs = pty.openpty()
        command = [*COMMAND, "diff", tmp_path, "aaaa", "bbbb"]
        subprocess.run(command, stdout=theirs, stdin=theirs, env=environment, check=True)
        shown = os.read(ours, 4096)
        os.close(ours)
        os.close(theirs)
        assert (b"\x1b[" in shown) is coloured
        assert b"{+two+}" in shown


def test_an_output_that_knows_no_unicode_gets_question_marks(tmp_path: Path) -> None:
    write(tmp_path, [checked("aaaa", "Ω漢"), checked("bbbb", "Ω")])
    plain = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "1"}
    shown = run("diff", tmp_path, "aaaa", "bbbb", env=plain)
    assert shown.returncode == 0
    assert "?" in shown.stdout


@pytest.mark.parametrize("command", [["tail", "-n", "99999"], ["plugins"]])
def test_a_closed_pipe_is_no_traceback(command: list[str], tmp_path: Path) -> None:
    many = [checked(f"{number:016x}", "x" * 200) for number in range(3000)]
    folder = [write(tmp_path, many)] if command[0] == "tail" else []
    process = subprocess.Popen(
        [*COMMAND, command[0], *folder, *command[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    errors = process.stderr.read()
    process.wait(60)
    assert b"Traceback" not in errors
    assert b"Exception ignored" not in errors


def test_what_is_no_run_is_refused_with_what_to_give(tmp_path: Path) -> None:
    assert "there is no" in refused("best", tmp_path / "none")
    assert "holds no journal (events.jsonl)" in refused("best", tmp_path)
    (tmp_path / "file").touch()
    assert "is not a folder" in refused("best", tmp_path / "file")
    write(tmp_path / "arm" / "coevo", [])
    assert f"runs below it: {tmp_path}/arm/coevo" in refused("best", tmp_path)
    (tmp_path / "arm" / "coevo" / "events.jsonl").write_text("")
    assert "no event that can be read" in refused("explain", tmp_path / "arm", "x")
    header = {"event": "run_begins", "journal": 99, "noted": {"versions.prompt-coevo": "9.0"}}
    (tmp_path / "arm" / "coevo" / "events.jsonl").write_text(json.dumps(header) + "\n")
    for command in (["best"], ["explain", "x"], ["diff", "x", "y"], ["tail", "--no-follow"]):
        told = refused(command[0], tmp_path / "arm", *command[1:])
        assert "has format 99" in told
        assert "(9.0)" in told


def test_half_a_journal_is_read_and_the_loss_is_told(tmp_path: Path) -> None:
    folder = run_in(tmp_path, STREAM)
    path = folder / "events.jsonl"
    path.write_bytes(path.read_bytes()[:-7])
    shown = run("best", tmp_path)
    assert shown.returncode == 0
    gaps = "unreadable lines: 1, events never written: 0"
    assert shown.stderr.startswith(f"note: the journal is not whole ({gaps}); the rest is shown")
    assert "template " in shown.stdout


def test_an_unknown_candidate_is_answered_with_near_ones(tmp_path: Path) -> None:
    write(tmp_path, [checked("5c3be9111ad11214", "x"), checked("5c3bf0000ad11215", "y")])
    assert "near it: 5c3be9111ad11214" in refused("explain", tmp_path, "5c3be9111ad11213")
    assert "2 candidates begin with '5c3b'" in refused("explain", tmp_path, "5c3b")
    assert "the latest: 5c3be" in refused("explain", tmp_path, "zz\x1b[2J")
    write(tmp_path, [])
    assert "has none yet" in refused("diff", tmp_path, "a", "b")


def test_the_report_names_what_it_needs(tmp_path: Path) -> None:
    write(tmp_path, [])
    code = "import sys; sys.modules['matplotlib'] = None; " + CODE
    command = [sys.executable, "-P", "-c", code, "report", tmp_path]
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert failed.stderr.strip().endswith("run: pip install 'prompt-coevo[report]'")
    assert "--port has no effect without --serve" in refused("report", tmp_path, "--port", "1")
    assert "--out has no effect" in refused("report", tmp_path, "--serve", "--out", "x")


@pytest.mark.parametrize("name", ["report", "explain", "diff", "best", "tail", "plugins"])
def test_every_help_has_an_example(name: str) -> None:
    shown = run(name, "--help").stdout
    assert f"prompt-coevo {name}" in " ".join(shown.replace("│", " ").split())
    assert "Example" in shown


def test_plugins_tell_where_they_come_from(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from prompt_coevo import hookimpl\n"
        "class Mine:\n"
        "    @hookimpl\n"
        "    def coevo_metrics(self):\n        return {}\n"
        "plugin = Mine()\n"
    )
    info = tmp_path / "mine-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.2\n")
    entry = "[prompt_coevo]\nmine = mine:plugin\n"
    (info / "entry_points.txt").write_text(entry)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    shown = run("plugins", env=environment)
    assert shown.returncode == 0
    assert "  mine  mine 1.2  mine:plugin\n    hooks: coevo_metrics\n" in shown.stdout
    found = json.loads(run("plugins", "--json", env=environment).stdout)
    assert found["plugins"][0]["hooks"] == ["coevo_metrics"]
    assert {"kind": "gates", "name": "text", "from": "it is built in"} in found["components"]
    (info / "entry_points.txt").write_text(entry + "broken = mine:nothing\n")
    shown = run("plugins", env=environment)
    assert shown.returncode == 2
    assert "not loaded: the installed plugin 'broken' cannot be loaded" in shown.stdout
    assert "hooks: coevo_metrics" in shown.stdout
