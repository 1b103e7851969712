"""Check an index's analyzer: chosen at build time, recorded in the manifest, the same for all queries."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo import registry
from prompt_coevo.errors import CoevoError, SettingsError
from prompt_coevo.extras import MissingExtraError
from prompt_coevo.retrieval.bm25 import analyzers, recorded
from prompt_coevo.retrieval.errors import IndexFileError, RetrieverError
from prompt_coevo.retrieval.index import manifest
from prompt_coevo.retrieval.index.build import Request, build
from prompt_coevo.retrieval.index.open import describe, open_index

TEXTS = ["the war of the kings", "Häuser am Fluss", "Beyoncé", "北京大学", "a U.S. song"]
COMMAND = [sys.executable, "-P", "-c", "from prompt_coevo.cli import main; main()", "retrieval"]

Found = list[list[str]]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    lines = (json.dumps({"id": str(row), "contents": text}) for row, text in enumerate(TEXTS))
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def found(folder: Path, *queries: str) -> Found:
    index = open_index(folder)
    hits = [[hit.id for hit in ranking] for ranking in index.search(queries, 3)]
    index.close()
    return hits


def entry_of(folder: Path) -> Any:
    return json.loads((folder / manifest.NAME).read_text())["bm25"].get("analyzer")


def change_entry(folder: Path, entry: Any) -> None:
    content = json.loads((folder / manifest.NAME).read_text())
    if entry is None:
        del content["bm25"]["analyzer"]
    else:
        content["bm25"]["analyzer"] = entry
    (folder / manifest.NAME).write_text(json.dumps(content))


def test_english_is_what_an_index_is_built_with(corpus: Path, tmp_path: Path) -> None:
    build(corpus, tmp_path / "index")
    assert found(tmp_path / "index", "wars", "beyonce", "US songs", "北京") == [
        ["0"],
        ["2"],
        ["4"],
        ["3"],
    ]
    told = describe(tmp_path / "index").details["bm25"]["analyzer"]
    assert told["name"] == "english"
    assert told["options"] == {}


@pytest.mark.parametrize(
    ("request_", "queries", "ids"),
    [
        (Request(analyzer="unicode"), ["wars", "war", "BEYONCE"], [[], ["0"], ["2"]]),
        (Request(analyzer="lucene"), ["wars", "US song", "beyonce"], [["0"], ["4"], []]),
        (
            Request(analyzer="snowball", analyzer_options={"language": "german"}),
            ["Haus", "flusse"],
            [["1"], ["1"]],
        ),
        (Request(analyzer="english", analyzer_options={"stop_words": False}), ["of"], [["0"]]),
    ],
)
def test_queries_have_the_words_of_the_index(
    corpus: Path, tmp_path: Path, request_: Request, queries: list[str], ids: Found
) -> None:
    build(corpus, tmp_path / "index", request_)
    assert found(tmp_path / "index", *queries) == ids
    assert entry_of(tmp_path / "index")["options"] == request_.analyzer_options


def test_the_analyzer_is_in_the_fingerprint(corpus: Path, tmp_path: Path) -> None:
    requests = [
        Request(),
        Request(analyzer="lucene"),
        Request(analyzer_options={"stop_words": False}),
    ]
    made = [build(corpus, tmp_path / str(number), one) for number, one in enumerate(requests)]
    assert len({one.fingerprint for one in made}) == 3
    assert (
        build(corpus, tmp_path / "same", Request(analyzer="english")).fingerprint
        == made[0].fingerprint
    )


def test_another_version_of_an_analyzer_is_refused(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(corpus, tmp_path / "index")
    stem = analyzers.porter()
    monkeypatch.setattr(
        analyzers, "porter", lambda: lambda word: "trekk" if word == "trekking" else stem(word)
    )
    with pytest.raises(
        IndexFileError, match=r"another version of .*'english'.*build the index again"
    ):
        open_index(tmp_path / "index")
    assert describe(tmp_path / "index")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (
            {"name": "klingon"},
            r"'klingon', which is not available here \(.*no such analyzer.*build the",
        ),
        (
            {"name": "nowhere:made"},
            r"'nowhere:made', which is not available here \(.*No module named",
        ),
        ({"options": {"stem": True}}, r"'english', which is not available here \(.*'stem'"),
        ({"name": 7}, "says that its analyzer is 7 with the options a dict, which is not"),
        ({"words": None}, "another version of the analyzer 'english'"),
        ({"options": None}, "is 'english' with the options None, which is not what was written"),
    ],
)
def test_an_analyzer_that_is_not_to_be_had_is_refused(
    corpus: Path, tmp_path: Path, entry: dict[str, Any], problem: str
) -> None:
    build(corpus, tmp_path / "index")
    change_entry(tmp_path / "index", {**entry_of(tmp_path / "index"), **entry})
    with pytest.raises(IndexFileError, match=problem) as raised:
        open_index(tmp_path / "index")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("entry", [None, "english", 3, [], {}, {"name": "english"}])
def test_an_entry_of_another_form_is_refused(corpus: Path, tmp_path: Path, entry: Any) -> None:
    build(corpus, tmp_path / "index")
    change_entry(tmp_path / "index", entry)
    with pytest.raises(IndexFileError, match="build the index again"):
        open_index(tmp_path / "index")


def test_a_missing_package_is_named_before_the_corpus_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prompt_coevo.extras.is_installed", lambda package: package != "Stemmer")
    with pytest.raises(
        MissingExtraError, match=r"'Stemmer'.*pip install 'prompt-coevo\[retrieval\]'"
    ):
        build(tmp_path / "no corpus", tmp_path / "index")


@pytest.mark.parametrize(
    ("request_", "error", "problem"),
    [
        (Request(analyzer="englsh"), SettingsError, "no such analyzer; did you mean english?"),
        (Request(analyzer_options={"stem": 1}), SettingsError, "takes: stop_words, fold"),
        (Request(analyzer="snowball"), SettingsError, "'language'"),
        (
            Request("dense", analyzer="english"),
            IndexFileError,
            "no effect on a dense index; ask for bm25",
        ),
        (Request("dense", analyzer_options={"a": 1}), IndexFileError, "no effect on a dense index"),
        (Request("hybrid", analyzer="englsh"), SettingsError, "no such analyzer"),
    ],
)
def test_what_cannot_be_chosen_is_said_before_the_corpus_is_read(
    tmp_path: Path, request_: Request, error: type[CoevoError], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        build(tmp_path / "no corpus", tmp_path / "index", request_)
    assert not (tmp_path / "index").exists()


FAILING = """
from letters import Letters


class Failing(Letters):
    def words(self, text):
        if text == "fail":
            raise KeyError(text)
        return [""] if text == "empty" else super().words(text)


class Silent:
    pass
"""


@pytest.fixture
def failing(strangers: Path) -> str:
    (strangers / "failing.py").write_text(FAILING)
    return "failing:Failing"


@pytest.mark.usefixtures("strangers")
def test_options_that_the_manifest_cannot_hold_are_refused(tmp_path: Path) -> None:
    asked = Request(analyzer="letters:Letters", analyzer_options={"size": {2}})
    with pytest.raises(SettingsError, match="cannot hold the options .*Object of type set"):
        build(tmp_path / "no corpus", tmp_path / "index", asked)


@pytest.mark.usefixtures("strangers")
def test_an_analyzer_of_ones_own(corpus: Path, tmp_path: Path) -> None:
    asked = Request(analyzer="letters:Letters", analyzer_options={"size": 2})
    build(corpus, tmp_path / "index", asked)
    assert found(tmp_path / "index", "ÄUS", "京大") == [["1"], ["3"]]
    assert entry_of(tmp_path / "index")["name"] == "letters:Letters"


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("fail", "failed on the text 'fail': KeyError"),
        ("empty", r"made \[''\] of the text 'empty'"),
    ],
)
def test_what_it_does_wrong_is_one_sentence(
    corpus: Path, tmp_path: Path, failing: str, query: str, problem: str
) -> None:
    build(corpus, tmp_path / "index", Request(analyzer=failing))
    index = open_index(tmp_path / "index")
    with pytest.raises(RetrieverError, match=f"the analyzer '{failing}' {problem}"):
        index.search([query], 1)


@pytest.mark.usefixtures("failing")
def test_what_is_no_analyzer_is_one_sentence(corpus: Path, tmp_path: Path) -> None:
    for place, problem in (
        ("failing:Silent", "made a Silent, which is no analyzer: it lacks words"),
        ("failing:__name__", "is a str, but must be a function that makes an analyzer"),
    ):
        with pytest.raises(SettingsError, match=problem):
            build(corpus, tmp_path / "index", Request(analyzer=place))


def test_an_analyzer_is_registered_by_name(corpus: Path, tmp_path: Path) -> None:
    registry.register("analyzers", "shouted", analyzers.unicode)
    try:
        build(corpus, tmp_path / "index", Request(analyzer="shouted"))
        assert found(tmp_path / "index", "WAR") == [["0"]]
    finally:
        registry.unregister("analyzers", "shouted")
    with pytest.raises(IndexFileError, match="'shouted', which is not available here"):
        open_index(tmp_path / "index")


def test_an_installed_package_may_bring_one(
    corpus: Path, tmp_path: Path, installed: Callable[[str, str], None]
) -> None:
    installed("prompt_coevo.analyzers", "trigrams = letters:Letters")
    build(corpus, tmp_path / "index", Request(analyzer="trigrams"))
    assert found(tmp_path / "index", "FLU") == [["1"]]


def test_the_command_line_takes_an_analyzer(corpus: Path, tmp_path: Path) -> None:
    def run(option: str) -> subprocess.CompletedProcess[str]:
        arguments = [
            "build",
            str(corpus),
            "--out",
            str(tmp_path / "index"),
            "--analyzer",
            "snowball",
        ]
        command = [*COMMAND, *arguments, "--analyzer-option", option]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done := run("language=german")).returncode == 0, done.stderr
    assert entry_of(tmp_path / "index")["options"] == {"language": "german"}
    assert found(tmp_path / "index", "haus") == [["1"]]
    assert "--analyzer-option 'german' is not of the form NAME=VALUE" in run("german").stderr


def test_the_probe_tells_every_analyzer_from_the_others() -> None:
    chosen = [
        ("english", {}),
        ("english", {"stop_words": False}),
        ("english", {"fold": False}),
        ("lucene", {}),
        ("unicode", {}),
        ("unicode", {"fold": False}),
        ("snowball", {"language": "german"}),
        ("snowball", {"language": "german", "fold": True}),
        ("snowball", {"language": "french"}),
    ]
    assert len({recorded.chosen(*one)[1]["words"] for one in chosen}) == len(chosen)
