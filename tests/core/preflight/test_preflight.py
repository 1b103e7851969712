"""Check the preflight with the real litellm and a local server."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.misbehaviour import KEY, KEY_SHOWN
from prompt_coevo import Coevolution, Settings, Workload, hookimpl, hookspecs
from prompt_coevo.errors import HostError, OutOfStep, PreflightError
from prompt_coevo.preflight import reflection_call
from prompt_coevo.preflight.page import Line, Page
from prompt_coevo.report.reading import read_run
from prompt_coevo.types import Question, Summary
from standins.openai_server import Raw, Slow, openai_server

DEAD_SENTENCES = {
    "a wrong name": (404, "NotFoundError", "is the name of reflection.model right"),
    "a refused key": (KEY_SHOWN, "[api key]", "environment variable for the key"),
    "no quota": (
        Raw(json.dumps({"error": {"message": "You exceeded your current quota."}}), 429),
        "exceeded your current quota",
        "no quota left",
    ),
    "a broken server": (500, "InternalServerError", ""),
    "no API": (Raw("<html></html>", content_type="text/html"), "reflection.api_base", ""),
    "a slow server": (Slow(3600), "Timeout", "raise reflection.timeout_s"),
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflection_call, "PAUSE_S", 0.01)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True, scope="module")
def _warm() -> None:
    """Make a first call, because litellm's imports take a slow machine a long time."""
    with openai_server("ready") as server:
        engine(server.base).context.language_model().complete(["a call"])


def engine(base: str | None, folder: Path | None = None, **settings: Any) -> Coevolution:
    reflection = {
        "model": "openai/gtp-5",
        "api_base": base,
        "api_key": KEY,
        "timeout_s": 1000.0,
        "total_timeout_s": 1000.0,
        **settings.pop("reflection", {}),
    }
    made = Settings(reflection={k: v for k, v in reflection.items() if v is not None}, **settings)
    return Coevolution.from_settings(made, output_dir=folder)


def events(folder: Path, name: str) -> list[dict[str, Any]]:
    lines = (folder / "coevo" / "events.jsonl").read_text().splitlines()
    return [event for line in lines if (event := json.loads(line))["event"] == name]


@pytest.mark.parametrize("name", DEAD_SENTENCES)
def test_a_dead_reflection_model_ends_the_run_before_its_first_step(
    name: str, policy: Any, tmp_path: Path
) -> None:
    answer, reason, remedy = DEAD_SENTENCES[name]
    with openai_server(answer) as server:
        seconds = 0.5 if isinstance(answer, Slow) else 1000.0
        made = engine(server.base, tmp_path, reflection={"timeout_s": seconds})
        with pytest.raises(PreflightError) as raised:
            made.begin(policy)
        assert 1 <= len(server.requests) <= reflection_call.ATTEMPTS
    told = str(raised.value)
    assert "\n" not in told
    assert told.startswith("the reflection model 'openai/gtp-5' does not answer: ")
    assert reason in told
    assert remedy in told
    assert 'preflight.reflection = "warn"' in told
    assert KEY not in told
    (probed,) = events(tmp_path, "reflection_probed")
    assert probed["error"]
    assert KEY not in (tmp_path / "coevo" / "events.jsonl").read_text()
    assert not policy.rollouts


def test_a_server_that_is_down(policy: Any, tmp_path: Path) -> None:
    with openai_server("ready") as server:
        base = server.base
    with pytest.raises(
        PreflightError, match=r"is http://127.0.0.1:\d+/v1 up, and can this machine"
    ) as refused:
        engine(base, tmp_path).begin(policy)
    run = read_run(tmp_path / "coevo")
    assert run.state == f"refused before the first step: {refused.value}"


def test_no_key(policy: Any) -> None:
    made = engine(None, reflection={"api_key": None})
    with pytest.raises(PreflightError, match="AuthenticationError.*OPENAI_API_KEY"):
        made.begin(policy)


def test_no_provider_of_that_name(policy: Any) -> None:
    made = engine(None, reflection={"model": "opnai/gpt-5"})
    with pytest.raises(PreflightError, match="; did you mean openai/gpt-5?"):
        made.begin(policy)
    made = engine(None, reflection={"model": "no-name-like-any"})
    with pytest.raises(PreflightError, match="write the provider in front of the name"):
        made.begin(policy)


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        ("openai/gtp-5", r"did you mean openai/gpt-5\?"),
        ("openai/gpt-5", "is the name of reflection.model right"),
        ("hosted_vllm/Mine/mine-8b", "is the name of reflection.model right"),
    ],
)
def test_near_names_are_the_providers(
    model: str, advice: str, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with openai_server(404) as server:
        for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL", "HOSTED_VLLM_API_BASE"):
            monkeypatch.setenv(name, server.base)
        with pytest.raises(PreflightError, match=advice):
            engine(None, reflection={"model": model}).begin(policy)


def test_a_password_in_the_address_is_not_shown(policy: Any) -> None:
    with openai_server("ready") as server:
        base = server.base.replace("//", "//me:hunter22@")
    with pytest.raises(PreflightError) as raised:
        engine(base).begin(policy)
    assert "hunter22" not in str(raised.value)
    assert "is http://127.0.0.1:" in str(raised.value)


def test_one_short_call_that_is_in_no_budget(policy: Any, tmp_path: Path) -> None:
    with openai_server("ready") as server:
        made = engine(server.base, tmp_path, reflection={"max_calls": 1})
        made.begin(policy)
    (request,) = server.requests
    assert request["max_tokens"] == reflection_call.MOST_TOKENS
    assert made.metrics()["coevo/reflection_calls"] == 0
    (probed,) = events(tmp_path, "reflection_probed")
    assert probed["calls"] == 1
    assert probed["error"] is None
    assert probed["usage"]["prompt_tokens"] == 11
    (page,) = events(tmp_path, "preflight")
    assert page["ok"]


def test_a_resumed_run_asks_again_and_counts_nothing(policy: Any, tmp_path: Path) -> None:
    with openai_server("ready") as server:
        made = engine(server.base, tmp_path)
        made.begin(policy)
        state = json.loads(json.dumps(made.state_dict()))
        again = engine(server.base, tmp_path)
        again.load_state_dict(state)
        again.begin(policy)
        assert len(server.requests) == 2
        assert again.metrics()["coevo/reflection_calls"] == 0
    dead = engine(server.base, tmp_path)
    dead.load_state_dict(state)
    with pytest.raises(PreflightError):
        dead.begin(policy)


def test_an_error_that_passes_is_waited_for(policy: Any) -> None:
    with openai_server(500, "ready") as server:
        engine(server.base).begin(policy)
        assert len(server.requests) == 2


def test_a_busy_model_is_there(policy: Any, caplog: pytest.LogCaptureFixture) -> None:
    with openai_server(429) as server, caplog.at_level(logging.WARNING, logger="prompt_coevo"):
        engine(server.base).begin(policy)
    assert "is up, but busy: RateLimitError" in caplog.text


LIMIT = (
    "Rate limit reached. You exceeded your current quota of requests per minute. Please try again in 3.9s. "
    "Need more? https://console.example/settings/billing"
)


@pytest.mark.parametrize(
    "answer",
    [
        Raw(json.dumps({"error": {"message": LIMIT}}), 429),
        Raw(json.dumps({"error": {"message": "The server is overloaded"}}), 503),
    ],
)
def test_a_limit_a_minute_and_an_overload_end_no_run(
    answer: Raw, policy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with openai_server(answer) as server, caplog.at_level(logging.WARNING, logger="prompt_coevo"):
        engine(server.base).begin(policy)
    assert "is up, but busy" in caplog.text
    assert "no quota left" not in caplog.text


def test_what_a_first_call_imports_is_waited_for_at_exit() -> None:
    """In the call's thread the imports would count as the server's time, and in a daemon thread they would
    block the exit; so too on the first unprobed background call."""
    script = """
import sys, threading
from prompt_coevo import Coevolution, Settings
from prompt_coevo.threads import in_thread

class Watch:
    seen = []
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread().daemon:
            self.seen.append(name)

reflection = {"model": "openai/a", "api_base": sys.argv[1], "api_key": "k", "timeout_s": 1000,
              "total_timeout_s": 1000}
made = Coevolution.from_settings(Settings(reflection=reflection, preflight={"reflection": "off"}))
model = made.context.language_model()
sys.meta_path.insert(0, Watch())
assert in_thread(lambda: model.complete(["a call"])).result()[0].text == "ready"
print(len(Watch.seen))
"""
    with openai_server("ready") as server:
        command = [sys.executable, "-P", "-c", script, server.base]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 50  # without `warm` some 500


def test_a_key_in_somebody_elses_error_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secretsecretsecret123")
    assert "secretsecret" not in Line("problem", "rollout", "bad: sk-secretsecretsecret123").text


def test_a_thinking_model_that_needs_more_tokens_is_there(policy: Any) -> None:
    error = {"message": "Could not finish: max_tokens or model output limit was reached"}
    with openai_server(Raw(json.dumps({"error": error}), 400)) as server:
        engine(server.base).begin(policy)


def test_a_dead_model_may_be_warned_of(policy: Any, caplog: pytest.LogCaptureFixture) -> None:
    with openai_server(401) as server, caplog.at_level(logging.WARNING, logger="prompt_coevo"):
        engine(server.base, preflight={"reflection": "warn"}).begin(policy)
    assert "does not answer: AuthenticationError" in caplog.text


@pytest.mark.parametrize("off", ["off", False, "false"])
def test_it_may_be_left_out(policy: Any, off: Any) -> None:
    with openai_server(401) as server:
        engine(server.base, preflight={"reflection": off}).begin(policy)
        assert not server.requests


def test_a_run_that_needs_no_model_asks_none(policy: Any) -> None:
    with openai_server(401) as server:
        inspo = {"instruction": "Think.", "evolution": "off", "paraphrase": False}
        made = engine(server.base, algorithms="inspo", inspo=inspo)
        page = made.preflight(policy)
        assert not server.requests
    assert "nothing in this run uses a reflection model" in page.text()


def test_a_function_is_not_called(policy: Any, make_engine: Any) -> None:
    called: list[str] = []
    page = make_engine(called.append).preflight(policy)
    assert not called
    assert "a python function, which is not called until it is needed" in page.text()


def test_the_initial_policy_is_not_loaded(policy: Any) -> None:
    made = Settings(reflection={"model": "self"}, algorithms=())
    assert "nothing in this run" in Coevolution.from_settings(made).preflight(policy).text()


def test_a_model_of_somebody_else_that_hangs_is_given_up(policy: Any, offer: Any) -> None:
    class Hangs:
        def complete(self, prompts: Any) -> Any: ...

        def brief(self, prompt: str, most_tokens: int, seconds: float) -> Any:
            time.sleep(3600)

    offer("models", "hangs", lambda reflection, initial_policy: Hangs())
    settings = Settings(reflection={"backend": "hangs", "timeout_s": 0.05})
    with pytest.raises(PreflightError, match="no answer within"):
        Coevolution.from_settings(settings).begin(policy)


def test_a_model_of_somebody_else_that_cannot_be_brief_is_not_asked(
    policy: Any, offer: Any
) -> None:
    class Plain:
        def complete(self, prompts: Any) -> Any:
            raise AssertionError

    offer("models", "plain", lambda reflection, initial_policy: Plain())
    page = Coevolution.from_settings(Settings(reflection={"backend": "plain"})).preflight(policy)
    assert "'plain' is not called: it has no method `brief`" in page.text()


def test_a_spent_budget_asks_nothing(policy: Any) -> None:
    with openai_server("ready") as server:
        made = engine(server.base, reflection={"max_calls": 1})
        made.context.language_model().complete(["a call of the run"])
        page = made.preflight(policy)
        assert len(server.requests) == 1
    (warning,) = page.of("warning")
    assert "is not called any more: the budget reflection.max_calls = 1 is spent" in warning.text


# Prompts


def ids(prompt: Any) -> list[int]:
    """Encode characters with a chat template that drops system messages."""
    if isinstance(prompt, str):
        return [*prompt.encode()]
    return [*"|".join(one["content"] for one in prompt if one["role"] != "system").encode()]


class Shaped:
    """Questions of three shapes."""

    def __init__(self) -> None:
        user = {"role": "user", "content": "why?"}
        system = {"role": "system", "content": "Be kind."}
        self._prompts: list[Any] = ["why?", "how?", [user], [system, user]]

    def question_ids(self) -> list[str]:
        return [str(number) for number in range(len(self._prompts))]

    def question(self, question_id: str) -> Question:
        return Question(question_id, self._prompts[int(question_id)])


def test_every_shape_of_row_is_placed_and_tokenised() -> None:
    settings = Settings(reflection={"function": len})
    page = Coevolution.from_settings(settings, encode=ids).preflight(Shaped())  # type: ignore[arg-type]
    told = [line.text for line in page.lines if line.topic in ("questions", "prompts")]
    assert told == [
        "4 questions in 3 shapes",
        "text (2): 4 tokens; with a template, rollouts see 43 and training 4",
        "chat: user (1): 4 tokens; with a template, rollouts see 43 and training 4",
        "chat: system, user (1): 4 tokens; with a template, rollouts see 43 and training 4",
    ]
    assert not page.exit_status


def test_an_instruction_that_the_chat_template_leaves_out() -> None:
    settings = Settings(
        algorithms="inspo", inspo={"instruction": "Think."}, reflection={"function": len}
    )
    page = Coevolution.from_settings(settings, encode=ids).preflight(Shaped())  # type: ignore[arg-type]
    told = [line.text for line in page.of("problem")]
    assert len(told) == 2
    assert all("the instruction does not reach the policy" in text for text in told)
    assert all('set placement.instruction = "prefix"' in text for text in told)
    assert page.exit_status == 1


def test_a_chat_template_that_raises() -> None:
    def encode(prompt: Any) -> list[int]:
        if prompt[0]["role"] == "system":
            raise ValueError("System role\nnot supported")
        return ids(prompt)

    settings = Settings(
        algorithms="inspo", inspo={"instruction": "Think."}, reflection={"function": len}
    )
    made = Coevolution.from_settings(settings, encode=encode)
    page = made.preflight(Shaped())  # type: ignore[arg-type]
    assert any("ValueError: System role not supported" in one.text for one in page.of("problem"))


# The forecast


def of_p2o(**section: Any) -> dict[str, Any]:
    return {"algorithms": "p2o", "p2o": {"overspend": "never", **section}}


FUNCTION = {"reflection": {"function": len}}
INSPO = {"algorithms": "inspo", "inspo": {"instruction": "Think."}}
HINTS = {"algorithms": "hints"}
NO_SIGHT = {"stream": {"first_sight": False}}
NEVER = [
    (NO_SIGHT, {"epochs": 1.0, "steps": 40}, "the run has one epoch and meets no question twice"),
    (NO_SIGHT, {"epochs": 0.5, "steps": 20}, "the run has 0.5 epochs and meets no question twice"),
    ({}, {"epochs": 1.0, "steps": 40}, None),
    ({}, {"epochs": 0.5, "steps": 20}, None),
    (
        {"stream": {"bare_members": 8, "first_sight": False}},
        {"epochs": 3.0},
        "stream.bare_members = 8 leaves none of the 8",
    ),
    ({}, {"epochs": 40.0, "steps": 1}, "the run has 1 steps and the first reply is used after 1"),
    ({"stream": {"first_sight": True}}, {"epochs": 1.0, "steps": 40}, None),
    ({}, {"epochs": 2.0, "steps": 80}, None),
    ({}, {}, None),
    (of_p2o(), {"epochs": 1.0, "steps": 40}, "the run has one epoch and searches are made"),
    (of_p2o(), {"epochs": 1.5, "steps": 60}, None),
    (of_p2o(search_every=50), {"epochs": 1.0, "steps": 50}, "search_every = 50"),
    (of_p2o(search_every=49), {"epochs": 1.0, "steps": 50}, None),
    (of_p2o(min_hard=50), {"epochs": 9.0}, "needs 50 hard ones"),
    (
        HINTS,
        {"epochs": 1.0, "steps": 40},
        "no hint will ever be shown, because the run has one epoch",
    ),
    (HINTS, {"epochs": 0.5, "steps": 20}, "the run has 0.5 epochs and meets no question twice"),
    (HINTS, {"epochs": 1.5, "steps": 60}, None),
    (HINTS, {"epochs": 1.0, "rows": 60}, None),
    (INSPO, {"epochs": 1.0, "steps": 15}, "the run has 15 steps with new rollouts"),
    (INSPO, {"epochs": 1.0, "steps": 16}, None),
    (INSPO, {"steps": 30, "updates_per_round": 2.0}, "the run has 15 steps with new rollouts"),
]


@pytest.mark.parametrize(("settings", "length", "never"), NEVER)
def test_what_will_never_happen_is_said_before(
    settings: dict[str, Any], length: dict[str, Any], never: str | None
) -> None:
    made = Coevolution.from_settings(Settings(**FUNCTION, **settings))
    page = made.preflight(None, Workload(40, 8, **length))
    problems = [line.text for line in page.of("problem")]
    assert (not problems) if never is None else (never in problems[0]), problems


UNKNOWN = [
    (NO_SIGHT, {}, "epochs"),
    (NO_SIGHT, {"steps": 9}, "epochs"),
    ({}, {}, "steps"),
    ({}, {"steps": 9}, None),
    ({}, {"epochs": 2.0}, None),
    ({"stream": {"reply_steps": 2}}, {"epochs": 2.0}, "steps"),
    ({"stream": {"first_sight": True}}, {}, "steps"),
    (HINTS, {"steps": 9}, "epochs"),
    (HINTS, {"epochs": 2.0}, None),
    (of_p2o(), {"steps": 50}, "epochs"),
    (of_p2o(), {"epochs": 3.0}, None),
    (of_p2o(search_every=50), {"epochs": 3.0}, "steps"),
    (of_p2o(search_every=50), {"steps": 60}, None),
    (INSPO, {"epochs": 3.0}, "steps"),
    ({"algorithms": "inspo", "inspo": {**INSPO["inspo"], "evolution": "before"}}, {}, None),
    ({"algorithms": "inspo", "inspo": {**INSPO["inspo"], "evolution": "off"}}, {}, None),
]


@pytest.mark.parametrize(("settings", "length", "unknown"), UNKNOWN)
def test_a_length_that_would_decide_and_is_not_known_is_asked_for(
    settings: dict[str, Any], length: dict[str, Any], unknown: str | None
) -> None:
    page = Coevolution.from_settings(Settings(**FUNCTION, **settings)).preflight(
        None, Workload(200, 8, **length)
    )
    notes = [line.text for line in page.of("note") if line.topic == "forecast"]
    assert not page.of("problem")
    if unknown is None:
        assert not notes
    else:
        (note,) = notes
        assert f"how many {unknown} the run has is not known" in note
        assert f"prompt-coevo check --{unknown}" in note


@pytest.mark.parametrize(
    ("rows", "questions", "told"),
    [
        (1000, 1, "1 000 rows are 1 question, because prompt and right answer alone tell"),
        (2001, 1000, "2 001 rows are 1000 questions, because"),
        (2000, 1000, None),
        (None, 1000, None),
    ],
)
def test_rows_that_are_far_fewer_questions(
    rows: int | None, questions: int, told: str | None, policy: Any, tmp_path: Path, caplog: Any
) -> None:
    """The warning is on the check's page, in the run's log and in its journal."""
    made = Coevolution.from_settings(Settings(**FUNCTION), output_dir=tmp_path)
    with caplog.at_level(logging.WARNING):
        made.begin(policy, Workload(questions, 8, epochs=3.0, steps=24, rows=rows))
    (event,) = events(tmp_path, "preflight")
    found = [one["text"] for one in event["lines"] if one["status"] == "warning"]
    if told is None:
        assert not found
        return
    assert any(told in one and "question_id_column" in one for one in found)
    assert told in caplog.text
    assert f"an epoch is {rows} rows × 8 = {8 * (rows or 0)} training rollouts" in str(event)


def test_rows_that_an_id_makes_few_questions() -> None:
    made = Coevolution.from_settings(Settings(**FUNCTION, question_id_column="level"))
    page = made.preflight(None, Workload(3, 8, rows=900))
    (warning,) = page.of("warning")
    assert "900 rows are 3 questions, because the column 'level' tells" in warning.text
    assert "another column" in warning.text


def test_the_default_budget_next_to_the_dataset() -> None:
    made = Coevolution.from_settings(Settings(**FUNCTION, **of_p2o()))
    page = made.preflight(None, Workload(16, 8, epochs=3.0, steps=24))
    (warning,) = page.of("warning")
    assert "11000 rollouts (p2o.search_budget), 85.9 times the 128" in warning.text
    assert "p2o: 2 searches in this run; after an epoch at most 11000 rollouts" in page.text()


def test_a_search_that_may_overspend_is_counted_with_its_last_wave() -> None:
    made = Coevolution.from_settings(
        Settings(**FUNCTION, **of_p2o(overspend="literal", search_budget=100, beam_width=4))
    )
    page = made.preflight(None, Workload(16, 8, epochs=3.0, steps=24))
    # Each of four proposals costs 2 · 3 rollouts, and 8 more on the dev questions.
    assert "after an epoch at most 156 rollouts" in page.text()


def inspo_page(length: dict[str, Any], **section: Any) -> Page:
    inspo = {**INSPO["inspo"], **section}
    made = Coevolution.from_settings(Settings(**FUNCTION, algorithms="inspo", inspo=inspo))
    return made.preflight(None, Workload(100, 8, **length))


def test_verification_next_to_training() -> None:
    length = {"epochs": 5.0, "steps": 40}  # evolutions after steps 15 and 30
    page = inspo_page(length)
    (warning,) = page.of("warning")
    # Two evolutions, each of five rounds with six candidates, and the parent once: 62 times 200.
    assert warning.text == (
        "inspo: candidates may be verified by 12400 rollouts in the whole run, 3.1 times the 4000 of "
        "training; inspo.verify_size = 64 makes about as many"
    )
    costs = (
        "inspo: 2 searches in this run; in the whole run at most 12400 rollouts outside training"
    )
    text = " ".join(page.text().split())
    assert costs in text
    assert "and 10 reflection calls" in text
    for fitting in ({"verify_size": 64}, {"verify": "off"}):
        assert not inspo_page(length, **fitting).of("warning")
    (warning,) = inspo_page({}).of("warning")
    assert "times the 800 of an epoch's training" in warning.text


def test_tokens_and_dollars_where_litellm_knows_a_price() -> None:
    with openai_server("ready") as server:
        made = engine(server.base, reflection={"model": "openai/gpt-4o-mini"})
        text = made.preflight(None, Workload(40, 8)).text().replace("\n", " ")
        assert "USD" in text
        made = engine(server.base)
        assert "litellm knows no price" in made.preflight(None, Workload(40, 8)).text()


# The page, a dry run, and a run's result


def test_a_dry_run_prints_the_page_and_ends(
    policy: Any, make_engine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_engine(preflight={"dry_run": True})
    with pytest.raises(SystemExit) as ended:
        made.begin(policy, Workload(40, 4, epochs=2.0, steps=80))
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "question 'q0': rewards 0, 0, 0; under a probe 0" in printed
    assert printed.endswith("no problem, 0 warnings\n")
    with pytest.raises(SystemExit) as ended:
        made.begin(policy, Workload(40, 4, epochs=1.0, steps=1))
    assert ended.value.code == 1


def test_a_rollout_that_fails_is_a_problem(make_engine: Any, keyed_policy: Any) -> None:
    page = make_engine().preflight(keyed_policy(4, fail_after=0), roll_out=True)
    (problem,) = page.of("problem")
    assert "a group of 4 rollouts failed: RuntimeError: the sampler is gone" in problem.text


def test_a_policy_without_questions_is_a_problem(make_engine: Any, keyed_policy: Any) -> None:
    page = make_engine().preflight(keyed_policy(0), roll_out=True)
    assert [one.text for one in page.of("problem")] == [
        "policy.question_ids() is empty: nothing to roll out"
    ]


@pytest.mark.parametrize("error", [HostError("no reward"), OutOfStep("rank 1 is gone")])
def test_rollouts_that_end_a_dry_run_do_not_take_its_page_with_them(
    error: HostError, policy: Any, make_engine: Any, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    def rollout(requests: object) -> None:
        raise error

    monkeypatch.setattr(policy, "rollout", rollout)
    made = make_engine(preflight={"dry_run": True}, output_dir=tmp_path)
    lost = isinstance(error, OutOfStep)
    with pytest.raises(OutOfStep if lost else SystemExit) as ended:
        made.begin(policy, Workload(40, 4, epochs=2.0, steps=80))
    assert lost or ended.value.code == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count(f"rollouts failed: {type(error).__name__}: {error}") == 1
    assert printed.endswith("1 problem, 0 warnings")
    (page,) = events(tmp_path, "preflight")
    assert not page["ok"]


def test_a_page_for_people_and_for_programs() -> None:
    page = Page((Line("ok", "settings", "p2o"), Line("problem", "x", "a\nb\x1b[2J" + " word" * 40)))
    assert all(len(line) <= 100 for line in page.text().splitlines())
    assert "\x1b" not in page.text()
    assert "a b⟨U+001B⟩[2J" in page.text()
    assert page.text().endswith("1 problem, 0 warnings")
    shown = json.loads(json.dumps(page.to_json()))
    assert not shown["ok"]
    assert shown["lines"][0] == {"status": "ok", "topic": "settings", "text": "p2o"}


def test_a_terminal_is_not_obeyed() -> None:
    assert Line("ok", "x", "a\r\nb\u202ec\ud800").text == "a b⟨U+202E⟩c⟨U+D800⟩"


def summaries(folder: Path) -> Iterator[dict[str, Any]]:
    yield from events(folder, "summary")


def test_a_run_for_nothing_says_so(
    policy: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: Any
) -> None:
    with openai_server("ready", 401) as server:
        made = engine(server.base, tmp_path, **of_p2o(search_budget=100))
        made.begin(policy)
        plan = made.plan(policy.question_ids(), 2)
        made.observe(policy.rollout([_request(one) for one in plan]))
        made.step_end(policy)
        made.epoch_end(policy)
        with caplog.at_level(logging.INFO, logger="prompt_coevo"):
            made.end(policy)
    (event,) = summaries(tmp_path)
    assert event["for_nothing"]
    assert event["text"].startswith(
        "p2o: 0 templates in use after 1 search (0 of 1 proposals accepted, 0 templates for 40 hard "
        "questions); the reflection model "
    )
    assert "failed 1 of 1 times: AuthenticationError" in event["text"]
    (record,) = [one for one in caplog.records if one.message.startswith("p2o: 0 templates")]
    assert record.levelno == logging.WARNING
    assert "====\nprompt_coevo: p2o: 0 templates" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "method", "known"),
    [
        (of_p2o(search_budget=100), "p2o", {"most_templates": 3}),
        (INSPO, "inspo", {"joined": 3}),
    ],
)
def test_a_resumed_run_remembers_what_came_of_it(
    settings: Any, method: str, known: dict[str, Any], make_engine: Any
) -> None:
    plugins = make_engine(**settings).context.plugins
    assert plugins.only(method, hookspecs.coevo_summary).for_nothing
    state = plugins.only(method, hookspecs.coevo_state)
    assert set(known) <= set(state)
    if "schedule" in state:
        known = {**known, "schedule": {**state["schedule"], "evolutions": 1}}
    plugins.only(method, hookspecs.coevo_load_state, state={**state, **known})
    assert not plugins.only(method, hookspecs.coevo_summary).for_nothing


def _request(assignment: Any) -> Any:
    from prompt_coevo.types import RolloutRequest, Sampling

    return RolloutRequest(assignment, Sampling())


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"stream": {"first_sight": False}},
            "stream: no template was ever used, because the run met no question twice",
        ),
        (of_p2o(), "no search ever happened, because the run had one epoch"),
        (INSPO, "inspo: no instruction ever evolved, because the run had 1 steps"),
    ],
)
def test_a_run_too_short_says_so(settings: Any, reason: str, policy: Any, tmp_path: Path) -> None:
    reflection = {"function": lambda prompt: ""}
    made = Coevolution.from_settings(
        Settings(reflection=reflection, **settings), output_dir=tmp_path
    )
    made.begin(policy)
    plan = made.plan(policy.question_ids(), 2)
    made.observe(policy.rollout([_request(one) for one in plan]))
    made.step_end(policy, last=True)
    made.end(policy)
    (event,) = summaries(tmp_path)
    assert event["for_nothing"]
    assert reason in event["text"]


def test_a_plugin_may_say_what_came_of_it(
    policy: Any, make_engine: Any, tmp_path: Path, capsys: Any
) -> None:
    class Mine:
        @hookimpl
        def coevo_summary(self) -> Summary:
            return Summary("all is well\x1b[2J")

    made = make_engine(algorithms=(), plugins={}, output_dir=tmp_path)
    made.context.plugins.register(Mine(), "mine")
    made.begin(policy)
    made.end(policy)
    (event,) = summaries(tmp_path)
    assert not event["for_nothing"]
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "length", "likely"),
    [
        (
            {},
            {"epochs": 3.0, "steps": 600},
            "150 calls in the whole run (one for each question and at most 150;",
        ),
        ({}, {"epochs": 3.0, "steps": 12}, "40 calls in the whole run"),  # 4 a step, for 10
        ({}, {"epochs": 3.0, "steps": 1}, "0 calls in the whole run"),
        ({"stream": {"calls_per_hard": 0.01}}, {"epochs": 2.0, "steps": 600}, "12 calls in the"),
        (
            of_p2o(),
            {"epochs": 3.0},
            "170 calls after an epoch (if a third of the questions is hard",
        ),
        (INSPO, {"steps": 100}, "30 calls in the whole run (by its schedule)"),
    ],
)
def test_what_is_likely_stands_beside_the_bound(
    settings: dict[str, Any], length: dict[str, Any], likely: str
) -> None:
    made = Coevolution.from_settings(Settings(**FUNCTION, **settings))
    page = made.preflight(None, Workload(512, 8, **length))
    (told,) = [line.text for line in page.lines if ", likely: " in line.text]
    assert likely in told
    assert "questions of 100 tokens, assumed" in told


def test_likely_tokens_rest_on_the_questions_that_are_counted(policy: Any) -> None:
    settings = Settings(**FUNCTION)
    made = Coevolution.from_settings(settings, encode=lambda prompt: [0] * 30)
    page = made.preflight(policy, Workload(40, 4, epochs=3.0, steps=60))
    (told,) = [line.text for line in page.lines if ", likely: " in line.text]
    # Of each of forty calls: 450 tokens of instructions, and four examples of 30 + 200.
    assert "40 calls in the whole run" in told
    assert (
        "54 800 tokens of prompts and 12 000 of replies (questions of 30 tokens, as counted" in told
    )
