"""`prompt-coevo evolve` against a real server, through the real litellm."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.answering import MAGIC, answer, sums
from prompt_coevo.cli import main
from prompt_coevo.endpoint import evolving
from prompt_coevo.report.reading import read_run
from standins.openai_server import Server, openai_server

KEY = "sk-test-0123456789"


class Command:
    """The command with its folder; `answers` of the server may be changed between two calls."""

    def __init__(self, folder: Path, server: Server, capsys: Any, monkeypatch: Any) -> None:
        self.folder, self.server = folder, server
        self.out = folder / "out"
        self._capsys, self._monkeypatch = capsys, monkeypatch

    def __call__(self, *more: object, kind: str = "instruction", code: int = 0) -> str:
        """Returns what was printed, stderr first."""
        words: dict[str, object] = {
            "--policy": "openai/policy",
            "--api-base": self.server.base,
            "--reward": "number",
            "--kind": kind,
            "--out": self.out,
        }
        if kind == "instruction":
            words |= {"--instruction": "Add.", "--rounds": 1}
        words |= dict(zip(more[::2], more[1::2], strict=True))
        given = [(name, value) for name, value in words.items() if value is not None]
        flat = [str(part) for pair in given for part in pair]
        argv = ["prompt-coevo", "evolve", str(self.folder / "data.jsonl"), *flat]
        self._monkeypatch.setattr("sys.argv", argv)
        with pytest.raises(SystemExit) as ended:
            main()
        said = self._capsys.readouterr()
        assert (ended.value.code or 0) == code, said.err
        return str(said.err + said.out)

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / "result.json").read_text())
        return found

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = (self.out / "coevo" / "events.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]


@pytest.fixture
def command(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Any]]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("PROMPT_COEVO_PREFLIGHT__REFLECTION", "off")  # calls are counted
    monkeypatch.setattr("sys.path", [*sys.path])
    sums(tmp_path / "data.jsonl")
    with openai_server(answer) as server:
        yield Command(tmp_path, server, capsys, monkeypatch)


def test_an_instruction(command: Any) -> None:
    said = command()
    result = command.result
    assert MAGIC in result["best"][0]["text"]
    assert said.strip().splitlines()[-1] == result["best"][0]["text"]
    assert (result["questions"], result["held_out"]) == (12, 4)
    assert result["after"]["mean"] == 1.0 > result["before"]["mean"]
    assert result["after"]["n"] == result["change"]["n"] == 4
    assert result["cost"]["calls"] == len(command.server.requests)
    with (command.out / "candidates.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["fate"] for row in rows} >= {"in use", "left the population"}
    assert command.events("run_begins")
    assert command.events("candidate_verified")


def test_templates(command: Any) -> None:
    command(kind="templates")
    result = command.result
    assert [one["kind"] for one in result["best"]] == ["template"]
    assert MAGIC in result["best"][0]["text"]
    assert result["after"]["mean"] == 1.0
    (assigned,) = command.events("templates_assigned")
    assert assigned["cover"]
    (summary,) = command.events("summary")
    assert not summary["for_nothing"]


def test_no_search_sees_a_held_out_question(command: Any) -> None:
    command("--held-out", 0.5)
    held = set(asked(command, greedily=True)) - set(asked(command, greedily=False))
    assert len(held) == 8
    shown = [
        str(body["messages"][0]["content"])
        for body in command.server.requests
        if "<ins_0>" in str(body["messages"][0]["content"])
    ]
    assert shown
    assert not any(question in prompt for question in held for prompt in shown)


@pytest.mark.parametrize("kind", ["instruction", "templates"])
def test_a_question_that_stands_twice_is_not_on_both_sides(command: Any, kind: str) -> None:
    command.folder.joinpath("data.jsonl").write_text(
        2 * sums(command.folder / "data.jsonl").read_text()
    )
    said = command("--held-out", 0.5, kind=kind)
    assert "left out: 16 of 32 rows" in said
    result = command.result
    assert (result["questions"], result["held_out"], result["duplicates"]) == (8, 8, 16)
    shown = re.findall(r"What is \d+ \+ \d+\?", str(asked(command, greedily=False)))
    assert len(set(shown)) == 8
    if kind == "templates":  # 20 rollouts for each different question
        (begun,) = command.events("run_begins")
        known = {**begun["settings"], **begun["noted"]}
        (budget,) = [value for name, value in known.items() if name.endswith("search_budget")]
        assert budget == 20 * 16, known


def asked(command: Any, *, greedily: bool) -> list[str]:
    """Questions that were asked at a temperature of 0, or warmer."""
    return [
        body["messages"][-1]["content"]
        for body in command.server.requests
        if (body["temperature"] == 0) is greedily and "What is" in body["messages"][-1]["content"]
    ]


def test_the_same_seed_and_replies_give_the_same_run(command: Any) -> None:
    command("--seed", 3)
    first, table = command.result, (command.out / "candidates.csv").read_text()
    command.out = command.folder / "again"
    command("--seed", 3, "--concurrency", 1)
    again = command.result
    for result in (first, again):
        del result["cost"]["seconds"]
    assert again == first
    assert (command.out / "candidates.csv").read_text() == table


def test_a_run_that_was_stopped_goes_on_without_paying_twice(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = evolving.Evolving._found

    def stopped(self: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(evolving.Evolving, "_found", stopped)
    monkeypatch.setattr(os, "_exit", sys.exit)  # this process goes on
    assert "the same command goes on" in command(code=130)
    paid = len(command.server.requests)
    monkeypatch.setattr(evolving.Evolving, "_found", original)
    command()
    held = 4
    assert len(command.server.requests) == paid + held  # only the last scores were missing
    assert command.result["cost"]["calls"] == paid + held


def test_a_finished_run_is_not_written_over(command: Any) -> None:
    command()
    count = len(command.server.requests)
    assert "holds the result of a finished run; name another folder" in command(code=2)
    assert len(command.server.requests) == count


def test_a_budget_counts_the_calls_of_both_models_and_ends_the_search(command: Any) -> None:
    command("--max-calls", 70)
    result = command.result
    assert len(command.server.requests) == result["cost"]["calls"] <= 70
    assert result["before"]["n"] == result["after"]["n"] == 4  # a fifth was kept for them


def test_a_budget_that_pays_no_first_pass_is_an_error(command: Any) -> None:
    said = command("--max-calls", 20, code=2)
    assert "before a search could begin, " in said
    assert "max_calls = 20 pays for no search, 69 are needed at least" in one_sentence(said)
    assert command.server.requests == []  # not even a probe
    said = command("--max-total-tokens", 1500, code=2)
    assert "before a search could begin, " in said
    assert not (command.out / "result.json").exists()
    assert read_run(command.out / "coevo").ended


def test_the_least_budget_that_is_taken_begins_a_search(command: Any) -> None:
    command("--max-calls", 69)
    assert command.result["first"]["n"] == 12


def test_a_budget_that_ends_the_search_says_so_and_a_larger_one_goes_on(
    command: Any, caplog: pytest.LogCaptureFixture
) -> None:
    said = command("--max-calls", 75)
    result = command.result
    assert "the budget reflection.max_calls = 60 is spent" in result["stopped"]
    assert result["unfinished"] is True
    assert "warning: the search ended early: the budget reflection.max_calls = 60" in said
    assert "could not be had" not in said  # those that were never asked
    assert result["cost"]["completions"] <= result["cost"]["calls"] <= 75
    logged = said + caplog.text
    assert "the search ends" in logged
    assert "training goes on" not in logged
    assert "evolve_every" not in logged
    assert read_run(command.out / "coevo").ended  # or the report would say that it still runs
    paid = len(command.server.requests)
    command("--max-calls", 1000)
    again = command.result
    assert read_run(command.out / "coevo").ended
    assert (again["stopped"], again["unfinished"]) == ("the evolutions are over", False)
    assert again["cost"]["calls"] == len(command.server.requests) > paid
    command.out = command.folder / "whole"
    command("--max-calls", 1000)
    whole = command.result
    assert again["best"] == whole["best"]
    # The scores of what was best so far are all that was paid for besides.
    assert again["cost"]["calls"] - whole["cost"]["calls"] <= 4


def test_a_result_that_cannot_be_written_can_be_gone_on_with(command: Any) -> None:
    (command.out / "candidates.csv").mkdir(parents=True)
    assert "the result cannot be written to" in one_sentence(command(code=2))
    paid = len(command.server.requests)
    (command.out / "candidates.csv").rmdir()
    command()
    assert MAGIC in command.result["best"][0]["text"]
    assert len(command.server.requests) == paid


def test_a_budget_in_dollars_needs_a_price(command: Any) -> None:
    assert "no price for" in command("--max-usd", 1.0, code=2)
    assert command.server.requests == []


def test_a_retry_is_a_call(command: Any) -> None:
    lock, failed = threading.Lock(), []

    def flaky(body: dict[str, Any]) -> Any:
        with lock:
            if not failed:
                failed.append(body)
                return 503
        return answer(body)

    command.server.answers = [flaky]
    command()
    cost = command.result["cost"]
    assert cost["calls"] == len(command.server.requests)
    assert cost["errors"] == 1


def test_a_question_that_the_server_refuses_is_left_out_and_said(command: Any) -> None:
    def picky(body: dict[str, Any]) -> Any:
        return 400 if "What is 5 + 35?" in str(body["messages"]) else answer(body)

    command.server.answers = [picky]
    said = command()
    assert MAGIC in command.result["best"][0]["text"]
    assert "completions could not be had" in said


# Errors, each one sentence


def one_sentence(said: str) -> str:
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert "Traceback" not in said
    return line


def test_a_server_that_is_down(command: Any) -> None:
    line = one_sentence(
        command("--api-base", "http://127.0.0.1:9/v1", "--total-timeout-s", 1, code=2)
    )
    assert "the policy openai/policy gave no completion" in line


def test_a_wrong_key_and_no_key(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    command.server.answers = [401]
    assert "AuthenticationError" in one_sentence(command(code=2))
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "api_key" in one_sentence(command(code=2))


def test_an_address_with_a_key_is_shown_nowhere(command: Any) -> None:
    secret = "u5er-p4ssw0rd"
    base = command.server.base.replace("http://", f"http://{secret}@") + f"?key={secret}"
    command.server.answers = [lambda body: 400]
    said = command("--api-base", base, code=2)
    assert secret not in said
    for path in command.out.rglob("*"):
        if path.is_file():
            assert secret not in path.read_text("utf-8", "replace"), path


def test_no_failures(command: Any) -> None:
    rows = [json.dumps({"prompt": f"What is {4 * n} + 1?", "answer": 4 * n + 1}) for n in range(8)]
    (command.folder / "data.jsonl").write_text("\n".join(rows))
    assert "nothing to evolve" in one_sentence(command(code=2))


def test_all_fail(command: Any) -> None:
    line = one_sentence(command("--reward", "exact", code=2))
    assert "a wrong --reward or column: to the answer" in line
    assert "The sum is" in line


def test_a_reflection_model_that_writes_nothing(command: Any) -> None:
    def only_policy(body: dict[str, Any]) -> Any:
        return answer(body) if "What is" in str(body["messages"][-1]["content"])[:8] else 400

    command.server.answers = [only_policy]
    line = one_sentence(command(kind="templates", code=2))
    assert "the reflection model failed" in line
    assert "BadRequestError" in line


def test_a_dead_reflection_model_costs_no_completion(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMPT_COEVO_PREFLIGHT__REFLECTION", "refuse")
    command.server.answers = [404]
    assert "404" in one_sentence(
        command(
            "--reflection", "openai/gtp-5", "--reflection-api-base", command.server.base, code=2
        )
    )
    assert {body["model"] for body in command.server.requests} == {"gtp-5"}


def test_a_reward_that_raises(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (command.folder / "my_evolve_rewards.py").write_text(
        "def broken(completion, answer, row):\n    raise ValueError('no gold')\n"
    )
    monkeypatch.chdir(command.folder)
    line = one_sentence(command("--reward", "my_evolve_rewards:broken", code=2))
    assert "of the data raised ValueError: no gold" in line


def test_a_model_that_takes_no_temperature_but_its_own(command: Any) -> None:
    """litellm knows of gpt-5 that it is one, before a request goes out."""
    line = one_sentence(command("--policy", "openai/gpt-5-mini", code=2))
    assert "--temperature default" in line
    command("--policy", "openai/gpt-5-mini", "--temperature", "default")
    assert command.result["after"]["mean"] == 1.0
    asked = {body.get("temperature", "none") for body in command.server.requests[1:]}
    assert asked == {"none"}  # of the candidates' writer, too
    command.out = command.folder / "another"
    assert "--temperature hot" in command("--temperature", "hot", code=2)


def test_what_the_settings_file_says_counts_where_no_option_does(command: Any) -> None:
    file = command.folder / "settings.yaml"
    file.write_text(
        "seed: 7\n"
        "reflection:\n"
        "  model: openai/the-teacher\n"
        f"  api_base: {command.server.base}\n"
        "  concurrency: 1\n"
        "  timeout_s: 77\n"
    )
    command("--config", file)
    result = command.result
    assert (result["seed"], result["reflection"]) == (7, "openai/the-teacher")
    assert {body["model"] for body in command.server.requests} == {"policy", "the-teacher"}
    (begun,) = command.events("run_begins")
    assert "77" in json.dumps(begun)
    command.out = command.folder / "another"
    command("--config", file, "--seed", 8, "--reflection", "openai/another")
    result = command.result
    assert (result["seed"], result["reflection"]) == (8, "openai/another")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("algorithms: [p2o]", "algorithms has no effect"),
        ("inspo: {evolve_every: 5}", "inspo.evolve_every = 5 has no effect"),
        ("inspo: {evolve_until: 9}", "inspo.evolve_until = 9 has no effect on evolve: --rounds"),
    ],
)
def test_a_setting_that_evolve_has_fixed_is_refused(command: Any, text: str, named: str) -> None:
    file = command.folder / "settings.yaml"
    file.write_text(text)
    assert named in one_sentence(command("--config", file, code=2))
    assert command.server.requests == []


def test_no_instruction_to_start_from(command: Any) -> None:
    assert "--instruction" in one_sentence(command("--instruction", None, code=2))


def test_what_has_no_effect_is_refused(command: Any) -> None:
    assert "--rounds has no effect" in command("--rounds", 2, kind="templates", code=2)
    assert "--kind prompts" in command(kind="prompts", code=2)


def test_a_hostile_candidate_is_shown_as_text(command: Any) -> None:
    def hostile(body: dict[str, Any]) -> Any:
        text = answer(body)
        return text.replace("Please", "=cmd|\x1b[31m") if text.startswith("<template>") else text

    command.server.answers = [hostile]
    said = command(kind="templates")
    assert "\x1b" not in said
    assert "\x1b" not in (command.out / "candidates.csv").read_text()
    with (command.out / "candidates.csv").open() as file:
        texts = [row["text"] for row in csv.DictReader(file) if "cmd" in row["text"]]
    assert texts
    assert all(text.startswith("'=cmd") for text in texts)
