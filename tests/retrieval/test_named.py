"""Check retrievers by name: in the agent's settings, and everything else that a name may resolve to."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from helpers.passages import queries, write_corpus
from helpers.retrieval_server import EchoRetriever, echo, serving
from prompt_coevo import Settings, registry
from prompt_coevo.errors import CoevoError, SettingsError
from prompt_coevo.retrieval.agent.episode import SearchEpisode
from prompt_coevo.retrieval.agent.settings import SearchAgentSettings, tool_of
from prompt_coevo.retrieval.agent.tool import SearchTool
from prompt_coevo.retrieval.errors import IndexFileError, RetrieverError
from prompt_coevo.retrieval.index.build import build
from prompt_coevo.retrieval.index.open import open_index
from prompt_coevo.retrieval.named import open_retriever
from prompt_coevo.retrieval.outcomes import Outage
from prompt_coevo.retrieval.retriever import Hit, IndexInfo, Limits, checked_search

PASSAGES = ["Bonn\nA city on the Rhine.", "Ulm\nA city on the Danube.", "Isar\nA river."]

Offer = Callable[[registry.Kind, str, Any], None]


def agent(**settings: Any) -> SearchTool:
    return tool_of(SearchAgentSettings(k=2, on_outage="observe", **settings))


@pytest.mark.usefixtures("strangers")
def test_an_agent_searches_with_a_documented_retriever() -> None:
    tool = agent(retriever="words:Words", retriever_options={"passages": PASSAGES})
    (hits,) = tool.search(["city danube."])
    assert isinstance(hits, list)
    assert [hit.contents for hit in hits] == [PASSAGES[1], PASSAGES[0]]
    assert asyncio.run(tool.asearch("city danube.")) == hits
    episode = SearchEpisode()
    episode.feed("<search> city danube. </search>")
    assert "Doc 1(Title: Ulm) A city on the Danube." in episode.observe(hits)


@pytest.mark.usefixtures("strangers")
def test_equal_settings_share_a_retriever_and_others_do_not() -> None:
    first, same, other = (
        agent(retriever="words:Words", retriever_options={"passages": texts})
        for texts in (PASSAGES, list(PASSAGES), PASSAGES[:2])
    )
    assert first is same
    assert first is not other


def test_a_retriever_can_be_registered(offer: Offer) -> None:
    retriever = EchoRetriever()
    offer("retrievers", "echo", lambda: retriever)
    assert agent(retriever="echo").search(["a"]) == [echo("a", 2)]


def test_a_retriever_of_an_installed_package_has_a_name(
    installed: Callable[[str, str], None],
) -> None:
    installed("prompt_coevo.retrievers", "strange = words:Words")
    found = open_retriever("strange", {"passages": PASSAGES}).search(["river."], 1)
    assert found[0][0].contents == PASSAGES[2]


def test_the_built_in_ones_are_what_url_and_index_stand_for(tmp_path: Path) -> None:
    build(write_corpus(tmp_path / "corpus.jsonl", 50), tmp_path / "index")
    (query, right) = queries(1, of=50)[0]
    named = agent(retriever="index", retriever_options={"folder": str(tmp_path / "index")})
    ((hit, _),) = named.search([query])
    assert hit.id == right
    assert agent(index=tmp_path / "index").search([query]) == named.search([query])
    with serving(EchoRetriever()) as address:
        for settings in (
            {"url": address, "request_timeout_s": 7.0},
            {"retriever": "remote", "retriever_options": {"url": address, "total_timeout_s": 7.0}},
        ):
            assert agent(**settings).search(["a"]) == [echo("a", 2)]


def test_an_index_that_is_served_leaves_limits_to_the_server(tmp_path: Path) -> None:
    build(write_corpus(tmp_path / "corpus.jsonl", 300), tmp_path / "index")
    index = open_retriever("index", {"folder": tmp_path / "index"})
    query = "painter miner singer farmer judge sailor poet baker nurse"
    assert len(index.search([query], Limits().max_k + 100)[0]) > Limits().max_k
    assert index.info() == open_index(tmp_path / "index").info()
    index.close()


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("wrds", {}, r"retriever = 'wrds': there is no such retriever"),
        (
            "nowhere:make",
            {},
            r"No module named 'nowhere'; install it, or put its folder on PYTHONPATH",
        ),
        ("words:Nope", {}, r"retriever = 'words:Nope' cannot be imported .*no attribute 'Nope'"),
        ("broken:make", {}, r"cannot be imported: SyntaxError: .*; fix the module"),
        ("words:__doc__", {}, r"is None, but must be a function that makes a retriever"),
        ("words:Words", {}, r"missing a required argument: 'passages'; it takes: passages"),
        ("words:Words", {"passages": [], "n": 1}, r"unexpected keyword argument 'n'"),
        ("remote", {}, r"missing a required argument: 'url'; it takes: url, options"),
        ("remote", {"url": "here"}, r"'here' is no address of a retrieval server"),
        ("remote", {"url": "http://h", "n": 1}, r"'remote' could not be opened: TypeError: .*'n'"),
        ("index", {"folder": "nope"}, r"there is no index nope"),
        ("fails:make", {}, r"'fails:make' could not be opened: OSError: the disk is gone"),
        (
            "fails:nothing",
            {},
            r"made None, which is no retriever: it lacks search and info and close",
        ),
        ("fails:half", {}, r"made a Half, which is no retriever: it lacks info and close"),
    ],
)
def test_what_is_no_retriever_is_one_sentence(
    strangers: Path, name: str, options: dict[str, Any], sentence: str
) -> None:
    (strangers / "broken.py").write_text("make = (\n")
    (strangers / "fails.py").write_text(
        "class Half:\n    def search(self, queries, k):\n        return []\n\n\n"
        "def half():\n    return Half()\n\n\n"
        "def nothing():\n    pass\n\n\n"
        "def make():\n    raise OSError('the disk is gone')\n"
    )
    with pytest.raises(CoevoError, match=sentence) as raised:
        open_retriever(name, options)
    assert isinstance(raised.value, SettingsError | IndexFileError)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "set either url, .*, or index, a folder, or retriever"),
        ({"url": "http://h", "retriever": "x"}, "set either url"),
        ({"url": "http://h", "retriever_options": {"a": 1}}, "retriever_options have no effect"),
        ({"retriever": "x", "request_timeout_s": 3.0}, "request_timeout_s is for url alone"),
        ({"url": "http://h", "max_search_s": 3.0}, "max_search_s is for searches in this process"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SettingsError, match=f"search agent: {sentence}"):
        SearchAgentSettings(**settings)


def test_a_preset_names_a_retriever(tmp_path: Path, offer: Offer) -> None:
    made: list[dict[str, Any]] = []

    def make(**options: Any) -> EchoRetriever:
        made.append(options)
        return EchoRetriever()

    offer("retrievers", "echo", make)
    for name, text in (
        ("job.toml", '[search_agent]\nretriever = "echo"\nk = 2\nretriever_options = {a = [1]}\n'),
        ("job.yaml", "search_agent: {retriever: echo, k: 2, retriever_options: {a: [1]}}\n"),
    ):
        preset = tmp_path / name
        preset.write_text(f"{text}\n")
        settings = SearchAgentSettings(preset=str(preset), max_turns=1)
        assert (settings.k, settings.max_turns) == (2, 1)
        assert tool_of(settings).search(["a"]) == [echo("a", 2)]
        other = SearchAgentSettings(preset=preset, url="http://h", k=7)
        assert (other.k, other.url, other.retriever) == (7, "http://h", None)
        assert Settings(config_file=str(preset)) == Settings(
            config_file=str(preset), algorithms="stream"
        )
    assert made == [{"a": [1]}] * 2


def test_the_presets_of_the_package_are_for_agents_too() -> None:
    settings = SearchAgentSettings(preset="inspo", url="http://h")
    assert settings.model_copy(update={"preset": None}) == SearchAgentSettings(url="http://h")
    with pytest.raises(SettingsError, match="search agent: set either url"):
        SearchAgentSettings(preset="inspo")


@pytest.mark.parametrize(
    ("preset", "sentence"),
    [
        ("insp", "there is no preset 'insp'; did you mean inspo"),
        ("p2o", "preset = 'p2o' has no section search_agent"),
        ("nowhere.toml", "the settings file nowhere.toml cannot be read"),
        (7, "preset must be a name or a path, but is a int"),
    ],
)
def test_a_preset_that_says_nothing_to_the_agent_is_refused(preset: Any, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        SearchAgentSettings(preset=preset, url="http://h")


def test_a_presets_mistakes_are_told(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("[search_agent]\nurl = 'http://h'\nturns = 3\n")
    with pytest.raises(SettingsError, match="search agent: .*turns"):
        SearchAgentSettings(preset=tmp_path / "job.toml")


@dataclass
class Answers:
    """Answer searches with these in order, then always with the last one."""

    found: list[Any]
    told: Any = field(default_factory=lambda: IndexInfo("answers", 1, "1"))

    def search(self, queries: Sequence[str], k: int) -> Any:
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]

    def info(self) -> Any:
        return self.told

    def close(self) -> None:
        pass


GOOD = [[Hit("1", "text", 1.0, 1)]]
WRONG = [
    (None, "with None"),
    ("text", "with a str"),
    ([], "with 0 lists"),
    ([None], "with None among the lists"),
    ((GOOD[0],), "with a tuple"),
    ([tuple(GOOD[0])], "with a tuple among the lists"),
    ([["text"]], "with a str among the hits"),
    ([[{"id": "1", "contents": "text"}]], "with a dict among the hits"),
    ([GOOD[0] * 2], "with 2 passages in one list"),
    ([[Hit(1, "text", 1.0, 1)]], "with a hit whose id and contents are 1 and 'text', not texts"),  # type: ignore[arg-type]
    ([[Hit("1", None, 1.0, 1)]], "with a hit whose id and contents are '1' and None, not texts"),  # type: ignore[arg-type]
    ([[Hit("1", "text", 1.0, 1, ["x"])]], r"with a hit whose fields are \['x'\], not a mapping"),  # type: ignore[arg-type]
    ([[Hit("1", "text", 1.0, 1, {1: 2})]], "with a hit whose fields are {1: 2}, not a mapping"),  # type: ignore[dict-item]
    ([[Hit("1", "text", None, 1)]], "with a hit whose score is a NoneType, not a float"),  # type: ignore[arg-type]
    ([[Hit("1", "text", math.nan, 1)]], "with a hit whose score is nan, which is no finite number"),
    ([[Hit("1", "text", -math.inf, 1)]], "with a hit whose score is -inf, which is no finite"),
]


@pytest.mark.parametrize(("found", "sentence"), WRONG)
def test_rows_of_the_wrong_shape_are_one_sentence(found: Any, sentence: str) -> None:
    expected = (
        rf"the retriever Answers answered a search \(queries: 1, k: 1\) {sentence}.*; its method"
    )
    with pytest.raises(RetrieverError, match=expected) as raised:
        checked_search(Answers([found]), ["a"], 1)
    assert "\n" not in str(raised.value)
    assert checked_search(Answers([GOOD]), ["a"], 1) == GOOD


def test_numbers_of_numpy_are_no_scores() -> None:
    numpy = pytest.importorskip("numpy")
    for kind in (numpy.float32, numpy.float64):
        with pytest.raises(RetrieverError, match=f"a {kind.__name__}, not a float"):
            checked_search(Answers([[[Hit("1", "text", kind(1.0), 1)]]]), ["a"], 1)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_first_answer_of_the_wrong_shape_ends_the_training(asynchronous: bool) -> None:
    tool = SearchTool(Answers([[["text"]]]), k=1, on_outage="observe")
    search = (
        (lambda: asyncio.run(tool.asearch("a"))) if asynchronous else (lambda: tool.search(["a"]))
    )
    with pytest.raises(RetrieverError, match="a str among the hits"):
        search()


def test_a_later_one_is_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    tool = SearchTool(Answers([GOOD, [["text"]]]), k=1, on_outage="observe")
    assert tool.search(["a"]) == GOOD
    with caplog.at_level(logging.ERROR):
        (told,) = tool.search(["a"])
    assert isinstance(told, Outage)
    assert "a str among the hits" in told.reason
    assert "a search failed" in caplog.text


@pytest.mark.parametrize(
    ("retriever", "sentence"),
    [
        (Answers([[["text"]]]), "answered a search .* with a str among the hits"),
        (Answers([GOOD], told={"kind": "x"}), "says a dict about itself"),
    ],
)
def test_a_server_does_not_start_with_it(retriever: Answers, sentence: str) -> None:
    from prompt_coevo.retrieval.server.server import RetrievalServer
    from prompt_coevo.retrieval.server.settings import ServerSettings

    with pytest.raises(RetrieverError, match=sentence):
        RetrievalServer(retriever, ServerSettings(port=0)).run()
