from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from prompt_coevo import cli
from prompt_coevo.errors import CoevoError


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    code = "from prompt_coevo.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def test_presets_are_listed_and_shown() -> None:
    listed = run("presets", "list")
    assert listed.returncode == 0
    assert "P2O as published: arXiv 2603.21877" in listed.stdout
    assert "beam_width = 16" in run("presets", "show", "p2o").stdout


def test_settings_are_shown_without_the_password_of_an_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PROMPT_COEVO_REFLECTION__MODEL", "openai/teacher")
    address = "https://me:hunter-2x9@models.example/v1?api_key=abc-991&region=eu"
    monkeypatch.setenv("PROMPT_COEVO_REFLECTION__API_BASE", address)
    shown = json.loads(run("settings").stdout)["reflection"]["api_base"]
    assert shown.startswith("https://models.example/v1")
    assert not any(secret in shown for secret in ("hunter", "abc-991"))


def test_settings_are_resolved_and_estimated() -> None:
    shown = run("settings", "--preset", "demo-p2o", "--questions", "512", "--group-size", "6")
    assert shown.returncode == 0
    assert json.loads(shown.stdout)["p2o"]["search_budget"] == 1200
    told = " ".join(shown.stderr.split())
    assert "an epoch is 512 questions × 6 = 3072 training rollouts" in told
    assert (
        "p2o: after an epoch at most 1200 rollouts outside training (39% of an epoch's 3072)"
        in told
    )
    assert "p2o, after an epoch: at most 7.6 million tokens of reflection prompts" in told


def test_the_cost_of_a_search_inside_training_is_estimated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = run("settings", "--questions", "512", "--group-size", "6")
    assert json.loads(shown.stdout)["algorithms"] == ["stream"]
    cost = (
        "stream: in an epoch at most 0 rollouts outside training (0% of an epoch's 3072) and 512 "
        "reflection calls, if all questions are hard"
    )
    assert f"{cost} ok" in " ".join(shown.stderr.split())
    monkeypatch.setenv("PROMPT_COEVO_STREAM__FIRST_SIGHT", "false")
    shown = run("settings", "--questions", "512", "--group-size", "6")
    assert (
        f"{cost}; no template is used in the first epoch without stream.first_sight ok"
        in " ".join(shown.stderr.split())
    )


def test_an_instructions_cost_is_estimated() -> None:
    shown = run("settings", "--preset", "inspo", "--questions", "512")
    assert (
        "inspo: in the whole run at most 55800 rollouts outside training (1362% of an epoch's 4096) "
        "and 45 reflection calls, and those for the paraphrases ok"
        in " ".join(shown.stderr.split())
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["presets", "show", "nope"],
            "error: there is no preset 'nope'; known presets: both, demo-inspo, demo-p2o,",
        ),
        (
            ["settings", "--config", "/nope.yaml"],
            "error: the settings file /nope.yaml cannot be read",
        ),
        (["demo", "--arms", "ppo"], "error: there is no arm 'ppo'; known: grpo, stream, p2o"),
        (["demo", "--api-base", "x"], "error: --api-base needs --reflection-lm"),
        (["smoke", "ppo"], "error: there is no adapter 'ppo'; known: trl, verl, openrlhf"),
        (
            ["smoke", "trl", "--only", "p2o,nope"],
            "error: there is no variant 'nope' with TRL; known: p2o, stream, inspo, lora",
        ),
        (
            ["smoke", "verl", "--cpu"],
            "error: none of these variants of VeRL runs without a GPU; leave --cpu out",
        ),
        (["smoke", "trl"], "needs the package 'torch', which is not installed; run: pip install"),
    ],
)
def test_an_error_is_one_sentence_and_status_2(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    failed = run(*arguments, cwd=tmp_path)
    assert failed.returncode == 2
    assert message in failed.stderr
    assert len(failed.stderr.strip().splitlines()) == 1


def test_the_demo_names_what_it_needs_before_it_starts(tmp_path: Path) -> None:
    code = "import sys; sys.modules['trl'] = None; from prompt_coevo.cli import main; main()"
    failed = subprocess.run(
        [sys.executable, "-P", "-c", code, "demo"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert failed.returncode == 2
    assert failed.stderr.strip().endswith("run: pip install 'prompt-coevo[demo]'")


def test_help_and_version() -> None:
    assert "--reflection-lm" in run("demo", "--help").stdout
    assert run("--version").stdout.strip()


def test_an_error_that_quotes_others_shows_no_key_and_steers_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise CoevoError("it said \x1b]0;title\x07 sk-test-0123456789")

    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    said = "error: it said ⟨U+001B⟩]0;title⟨U+0007⟩ [api key]\n"
    assert capsys.readouterr().err == said
