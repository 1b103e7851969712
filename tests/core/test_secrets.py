"""Check secrets wherever they can enter a run, against every byte that the run writes."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from helpers.families import Families, engine_with, epoch, knowing
from helpers.planted_secrets import (
    BY_SHAPE,
    GIVEN,
    IN_ADDRESSES,
    IN_VARIABLES,
    PASSWORD,
    QUERY,
    SAID,
    SECRETS,
    SLASHED,
    found_in,
)
from prompt_coevo import Coevolution, Settings, hookimpl
from prompt_coevo.errors import SettingsError, StateError
from prompt_coevo.proposals import Reply
from prompt_coevo.redact import names_a_key, redact, secrets_in
from prompt_coevo.settings.method import Method
from prompt_coevo.settings.section import Section
from standins.openai_server import Raw, openai_server


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in IN_VARIABLES.items():
        monkeypatch.setenv(name, value)


class Quoting:
    """A plugin that quotes what it knows in an error."""

    @hookimpl
    def coevo_observe(self) -> None:
        raise RuntimeError(SAID)


def written_by(engine: Coevolution, folder: Path) -> dict[str, str]:
    """Return the contents of a run's files by name, and the state in a checkpoint."""
    files = {path.name: path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()}
    return {**files, "a checkpoint": json.dumps(engine.state_dict(), ensure_ascii=False)}


def test_there_are_thirty_kinds() -> None:
    assert len(SECRETS) == len(set(SECRETS)) >= 30


@pytest.mark.parametrize("answers", ["replies", "errors", "both"])
def test_no_byte_of_a_run_holds_a_secret(
    answers: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = f"400 {SAID} wrong password {PASSWORD}"
    error = Raw(json.dumps({"error": {"message": said}}), 400)

    def reply(body: dict[str, Any]) -> str:
        return f"{knowing(body['messages'][-1]['content'])} {SAID}\n<template>{SAID}</template>"

    turns = {"replies": [reply], "errors": [error], "both": [reply, error]}[answers]
    script = cycle(turns)

    def answer(body: dict[str, Any]) -> Any:
        one = next(script)
        return one(body) if callable(one) else one

    with openai_server(answer) as server:
        address = server.base.replace("://", f"://user:{PASSWORD}@")
        settings = Settings(
            stream={"reply_steps": 1},
            preflight={"reflection": "off"},
            reflection={"model": "openai/test", "api_base": address, "api_key": GIVEN},
        )
        engine = Coevolution.from_settings(
            settings, output_dir=tmp_path, plugins={"quoting": Quoting()}
        )
        policy = Families(count=16)
        engine.begin(policy)
        for _ in range(3):
            list(epoch(engine, policy))
        engine.end(policy)
        asked = len(server.requests)
    assert asked > 3
    texts = {**written_by(engine, tmp_path), "the log": caplog.text, "repr": repr(settings)}
    assert {"events.jsonl", "calls.jsonl", "state.json"} <= texts.keys()
    assert not list(found_in(texts))
    assert "[api key]" in texts["events.jsonl"]


@pytest.mark.parametrize("address", IN_ADDRESSES.values())
def test_no_address_of_the_settings_is_written_whole(address: str, tmp_path: Path) -> None:
    settings = Settings(
        reflection={"model": "openai/test", "api_base": address}, preflight={"reflection": "off"}
    )
    engine = Coevolution.from_settings(settings, output_dir=tmp_path)
    engine.begin(Families(count=4))
    texts = {**written_by(engine, tmp_path), "repr": repr(settings)}
    assert not list(found_in(texts))


def test_parts_of_credentials_that_are_json_are_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's and IBM's credentials are objects; an error quotes one of their fields."""
    lines = ["MIIEvQIBADANBgkqhkiG9w0B-0030", "AQEFAASCBKcwggSjAgEAAoIB-0031"]
    kind = "PRIVATE KEY-----"  # put together here, so that no file has one
    pem = "\n".join([f"-----BEGIN {kind}", *lines, f"-----END {kind}", ""])
    inner = {"client_secret": "client-secret-0032", "project": "a-project-name"}
    whole = json.dumps({"type": "service_account", "private_key": pem, "web": [inner]})
    monkeypatch.setenv("VERTEX_CREDENTIALS", whole)
    monkeypatch.setenv("SOME_CREDENTIALS", "{not JSON")
    text = redact(f"bad key {pem} or {lines[1]}, {inner['client_secret']} of a-project-name")
    assert not [one for one in (*lines, inner["client_secret"]) if one in text]
    assert "a-project-name" in text


class Own(Section):
    api_key: str = ""
    password: int = 0
    servers: list[dict[str, Any]] = Field(default=[])
    address: str = ""
    sort_key: str = ""
    cred: str = ""


@pytest.fixture
def own(offer: Any) -> None:
    offer("methods", "own", Method("own", plugin=lambda context: Quoting(), section=Own))


def own_run(folder: Path, **values: Any) -> Coevolution:
    settings = Settings(
        algorithms=("stream", "own"), plugins={"own": values}, reflection={"function": knowing}
    )
    engine = Coevolution.from_settings(settings, output_dir=folder)
    engine.begin(Families(count=4))
    return engine


@pytest.mark.usefixtures("own")
def test_a_secret_of_a_plugins_settings_is_in_no_checkpoint(tmp_path: Path) -> None:
    servers = [
        {"apiKey": "deep-down", "headers": {"Authorization": "any word", "X-Api-Key": "and-this"}}
    ]
    address = f"{IN_ADDRESSES[PASSWORD]} {IN_ADDRESSES[QUERY]} {BY_SHAPE['sk']}"
    engine = own_run(
        tmp_path,
        api_key="any-text-at-all",
        password=987654321,
        servers=servers,
        address=address,
    )
    texts = written_by(engine, tmp_path)
    assert not list(found_in(texts))
    for secret in ("any-text-at-all", "987654321", "deep-down", "any word", "and-this"):
        assert not any(secret in text for text in texts.values()), secret


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"sort_key": "topic"}, {"sort_key": "level"}),
        ({"address": "https://host/d?split=train"}, {"address": "https://host/d?split=test"}),
    ],
)
def test_runs_that_differ_stay_different(
    tmp_path: Path, one: dict[str, str], other: dict[str, str]
) -> None:
    saved = own_run(tmp_path / "a", **one).state_dict()
    with pytest.raises(StateError, match="own"):
        own_run(tmp_path / "b", **other).load_state_dict(saved)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("names", [("", "INPUT_KEY"), ("X_TOKEN", "")])
def test_a_variable_that_comes_or_goes_changes_no_run(
    names: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even a variable with a word of the settings or of the questions."""
    saved: dict[str, Any] = {}
    for turn, name in enumerate(names):
        with monkeypatch.context() as patch:
            if name:
                patch.setenv(name, "question" if turn else "template")
                patch.setenv("OTHER_SECRET", "tok-en-0123456")
            engine = own_run(tmp_path / str(turn), cred="tok-en-0123456")
            if saved:
                engine.load_state_dict(saved)
            saved = engine.state_dict()


def test_a_variable_of_any_bytes_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environb, b"DB_PASSWORD", b"p\xe4ssw\xf6rd-1-of-latin")
    assert redact("y") == "y"


@pytest.mark.parametrize(
    "part",
    ["https://", "://a:b", "://a?", "://", "eyJ", "sk-a", "Bearer ", "a@b:", "Authorization "],
)
def test_redaction_ends(part: str) -> None:
    """A linear redaction takes a second for these texts, a quadratic one hours."""
    redact(part * (1_000_000 // len(part)))


def test_half_of_a_key_is_no_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD_SECRET", "a" + " " * 30 + "b")
    assert redact("a banana and a bee") == "a banana and a bee"


def test_a_key_within_an_address_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    key = IN_VARIABLES["ANTHROPIC_API_KEY"]
    assert redact(f"https://host/v1?key={key}&session={QUERY}") == "https://host/v1?[query]"
    assert redact(f"https://{key}:{PASSWORD}@host/v1") == "https://host/v1"
    monkeypatch.setenv("OPENAI_KEYS", "the-first-of-three-keys, the-second-of-three-keys")
    assert redact("not the-second-of-three-keys") == "not [api key]"


def test_why_a_reply_ended_holds_no_secret(tmp_path: Path, offer: Any) -> None:
    class Odd:
        def complete(self, prompts: list[str]) -> list[Reply]:
            return [Reply("fine", finish_reason=SAID) for _ in prompts]

    offer("models", "odd", lambda reflection, initial: Odd())
    settings = Settings(reflection={"backend": "odd", "api_key": GIVEN})
    engine = Coevolution.from_settings(settings, output_dir=tmp_path)
    engine.begin(Families(count=4))
    (reply,) = engine.context.language_model().complete(["a prompt"])
    assert reply.text == "fine"
    assert not list(found_in({**written_by(engine, tmp_path), "the reply": repr(reply)}))


def test_a_false_hit_changes_no_decision() -> None:
    """A question that looks like a key is still planned, tried and saved unchanged."""

    class Odd(Families):
        def question(self, question_id: str) -> Any:
            one = super().question(question_id)
            return replace(one, prompt=f"{one.prompt} {BY_SHAPE['sk']}")

    plans = []
    for policy in (Families(count=16), Odd(count=16)):
        engine = engine_with()
        engine.begin(policy)
        plans.append(
            [[one.template and one.template.text for one in plan] for plan in epoch(engine, policy)]
        )
    assert plans[0] == plans[1]


def test_what_of_an_address_is_quoted_alone_is_known() -> None:
    address = (
        f"https://user:pa%2Fss-0022@host/v1?api-version=2024-01-01&key={QUERY}&api_key=a%2525b"
    )
    assert secrets_in(address) == [QUERY, "a%25b", SLASHED]
    assert secrets_in("https://host/v1") == secrets_in("") == secrets_in("https://[") == []


def test_an_address_without_a_scheme_is_refused_and_not_quoted() -> None:
    with pytest.raises(SettingsError, match="reflection.api_base must begin with http") as refused:
        Settings(reflection={"model": "openai/test", "api_base": f"user:{PASSWORD}@host/v1"})
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "see http://localhost:8000/a@b and https://github.com/x/y@main, or write to me@host.org",
        "basic understanding of arithmetics, a bearer of 3 rings, task-based desk-2 risk-averse",
        "sk-learn-like-names-are-not-keys eyJ.a.b xoxo ASIA-PACIFIC hf_model",
        "the max_tokens of 4096",
        "Basic 2-digit-multiplication-1, basic probability/combinatorics(5C2)",
        "from sklearn: sk_learn_train_test_split_v2, xai-feature-attribution-2024, pplx-embed-context-v1-0",
        "http://[::1]:8000/a@b",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


_READ = re.compile(
    r"(?:environ\.get|getenv|get_secret|get_secret_str|environ\[)\(?\s*[\"']([A-Z][A-Z0-9_]+)[\"']"
)
_LIKE_A_KEY = re.compile(r"KEY|TOKEN|SECRET|PASSW|JWT|CREDENTIAL|BEARER|_PAT$")
_NO_KEY = re.compile(
    r"(?:TOKENS|COUNT|FILE|DIR|URL|URI|VERSION|ENDPOINT|ALIAS)$|^(?:JWT|MCP_JWT)_|TIKTOKEN"
)


def test_every_variable_that_litellm_reads_for_keys_is_known() -> None:
    package = importlib.util.find_spec("litellm")
    if package is None or package.origin is None:
        pytest.skip("litellm is not installed")
    root = Path(package.origin).parent
    sources = [*(root / "llms").rglob("*.py"), root / "main.py", root / "utils.py"]
    read = {name for file in sources for name in _READ.findall(file.read_text("utf-8"))}
    keys = {name for name in read if _LIKE_A_KEY.search(name) and not _NO_KEY.search(name)}
    assert len(keys) > 100
    assert not sorted(name for name in keys if not names_a_key(name))
