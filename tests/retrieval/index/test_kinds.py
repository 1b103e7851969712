"""Index kinds that this package does not know, from the build to the search."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from helpers.passages import passages, write_corpus
from prompt_coevo import registry
from prompt_coevo.errors import SettingsError
from prompt_coevo.retrieval.corpus import Corpus
from prompt_coevo.retrieval.errors import IndexFileError, RetrieverError
from prompt_coevo.retrieval.index import manifest
from prompt_coevo.retrieval.index.build import Request, build
from prompt_coevo.retrieval.index.open import describe, open_index
from prompt_coevo.retrieval.kinds import IndexKind, Job
from prompt_coevo.retrieval.shards import Shard

COUNT = 60
COMMAND = [sys.executable, "-P", "-c", "from prompt_coevo.cli import main; main()", "retrieval"]

Offer = Callable[[registry.Kind, str, Any], None]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus.jsonl", COUNT)


def shortest_with(text: str) -> list[str]:
    found = [one for one in passages(COUNT) if text in one["contents"]]
    return [one["id"] for one in sorted(found, key=lambda one: len(one["contents"]))]


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.usefixtures("strangers")
def test_a_documented_kind_is_built_opened_and_described(
    corpus: Path, tmp_path: Path, shards: int
) -> None:
    folder = tmp_path / "index"
    made = build(corpus, folder, Request("containing:KIND", shards=shards))
    assert (made.kind, made.details) == ("containing:KIND", {"version": 1})
    assert sum(facts.name.endswith("texts.json") for facts in made.files) == shards
    assert manifest.verify(folder) == made
    index = open_index(folder)
    (hits,) = index.search(["painter"], 3)
    assert [hit.id for hit in hits] == shortest_with("painter")[:3]
    assert [hit.rank for hit in hits] == [1, 2, 3]
    info = index.info()
    assert (info.kind, info.passages, info.details["version"]) == ("containing:KIND", COUNT, 1)
    assert describe(folder) == info
    index.close()


@pytest.mark.usefixtures("strangers")
def test_a_damaged_file_of_a_strangers_kind_is_named(corpus: Path, tmp_path: Path) -> None:
    build(corpus, tmp_path / "index", Request("containing:KIND"))
    texts = tmp_path / "index" / "shard-000" / "texts.json"
    texts.write_bytes(texts.read_bytes()[:-1])
    with pytest.raises(IndexFileError, match=r"texts.json is truncated"):
        open_index(tmp_path / "index")


@pytest.mark.usefixtures("strangers")
def test_the_command_line_knows_a_kind_by_its_place(
    corpus: Path, tmp_path: Path, strangers: Path
) -> None:
    before = os.environ.get("PYTHONPATH")  # an empty entry would be the current folder
    paths = os.pathsep.join([str(strangers), *([before] if before else [])])

    def run(*arguments: str) -> str:
        command = [*COMMAND, *arguments]
        environment = {**os.environ, "PYTHONPATH": paths}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    index = str(tmp_path / "index")
    told = run("build", str(corpus), "--out", index, "--kind", "containing:KIND")
    assert f"containing:KIND, {COUNT} passages" in told
    assert json.loads(run("info", index))["kind"] == "containing:KIND"
    found = json.loads(run("search", index, "painter", "--json"))["hits"]
    assert [hit["id"] for hit in found] == shortest_with("painter")[:3]


def test_a_kind_is_registered_by_name_and_missed_when_it_is_gone(
    corpus: Path, tmp_path: Path, strangers: Path
) -> None:
    from containing import KIND  # type: ignore[import-not-found]

    registry.register("indexes", "containing", KIND)
    try:
        made = build(corpus, tmp_path / "index", Request("containing"))
        assert open_index(tmp_path / "index").search(["painter"], 1)[0]
    finally:
        registry.unregister("indexes", "containing")
    sentence = (
        rf"the index {tmp_path / 'index'} is of a kind that cannot be had here \(there is no index of "
        r"kind 'containing'; known kinds: bm25, dense, hybrid; .*\); install what brings it"
    )
    for ask in (open_index, describe):
        with pytest.raises(IndexFileError, match=sentence):
            ask(tmp_path / "index")
    assert manifest.verify(tmp_path / "index") == made


def test_a_kind_of_an_installed_package_has_a_name(
    corpus: Path, tmp_path: Path, installed: Callable[[str, str], None]
) -> None:
    installed("prompt_coevo.indexes", "substring = containing:KIND")
    assert build(corpus, tmp_path / "index", Request("substring")).kind == "substring"
    assert open_index(tmp_path / "index").search(["painter"], 1)[0]


@pytest.mark.parametrize(
    ("kind", "error", "sentence"),
    [
        ("nowhere:KIND", SettingsError, r"No module named 'nowhere'; install it, or .* PYTHONPATH"),
        ("containing:NOPE", SettingsError, r"has no attribute 'NOPE'; install it"),
        ("containing:", SettingsError, r"cannot be imported"),
        (
            "broken:KIND",
            SettingsError,
            r"cannot be imported: ZeroDivisionError: .*; mend the module",
        ),
        (
            "containing:Containing",
            IndexFileError,
            r"is the class Containing, but must be an object",
        ),
        ("json:dumps", IndexFileError, r"kind = 'json:dumps' is a function, but must be an object"),
        (
            "containin",
            IndexFileError,
            r"no index of kind 'containin'; known kinds: bm25, dense, hybr",
        ),
    ],
)
def test_what_is_no_kind_is_one_sentence(
    corpus: Path,
    tmp_path: Path,
    strangers: Path,
    kind: str,
    error: type[Exception],
    sentence: str,
) -> None:
    (strangers / "broken.py").write_text("KIND = 1 / 0\n")
    with pytest.raises(error, match=sentence) as raised:
        build(corpus, tmp_path / "index", Request(kind))
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "index").exists()


@dataclass
class Says(IndexKind):
    """Says these details, finds these rankings and keeps what it was given."""

    details: Any = None
    found: Any = None
    job: Job | None = None

    def build(self, job: Job) -> Mapping[str, Any]:
        self.job = job
        return {} if self.details is None else self.details

    def open(self, corpus: Corpus, shards: Sequence[Shard], details: Mapping[str, Any]) -> Any:
        return self

    def search_rows(self, queries: Sequence[str], k: int) -> Any:
        return self.found

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("details", "sentence"),
    [
        ({"files": []}, "its build returned files, which the manifest itself says"),
        ({"kind": 1, "shards": 2}, "its build returned kind, shards, which"),
        ({"folder": Path("x")}, r"what JSON cannot hold \(Object of type .*Path is not JSON"),
        ("words", "what JSON cannot hold"),
    ],
)
def test_details_that_the_manifest_cannot_hold_are_one_sentence(
    corpus: Path, tmp_path: Path, offer: Offer, details: Any, sentence: str
) -> None:
    offer("indexes", "says", Says(details))
    with pytest.raises(RetrieverError, match=rf"the index kind 'says' was built, but .*{sentence}"):
        build(corpus, tmp_path / "index", Request("says"))


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ([], r"\[\] for a search with 1 queries"),
        (None, "None for a search with 1 queries"),
        ([[(COUNT, 1.0)]], rf"\[\({COUNT}, 1.0\)\] for one query and 2 passages"),
        ([[(-1, 1.0)]], r"\[\(-1, 1.0\)\] for one query"),
        ([[3]], r"\[3\] for one query"),
        ([[("3", 1.0)]], r"\[\('3', 1.0\)\] for one query"),
        ([[(1, None)]], r"\[\(1, None\)\] for one query"),
        ([[(1, 3.0), (2, 2.0), (3, 1.0)]], r"\[.*\] for one query and 2 passages"),
        ([None], "None for one query"),
    ],
)
def test_rows_of_another_shape_are_one_sentence(
    corpus: Path, tmp_path: Path, offer: Offer, found: Any, sentence: str
) -> None:
    offer("indexes", "says", Says(found=found))
    build(corpus, tmp_path / "index", Request("says"))
    wanted = rf"an index of kind 'says' found {sentence}.*pairs of a row of the corpus and a score"
    with pytest.raises(RetrieverError, match=wanted):
        open_index(tmp_path / "index").search(["x"], 2)


def test_numbers_of_numpy_are_rows_and_scores(corpus: Path, tmp_path: Path, offer: Offer) -> None:
    numpy = pytest.importorskip("numpy")
    offer("indexes", "says", Says(found=[[(numpy.int64(3), numpy.float32(0.5))]]))
    build(corpus, tmp_path / "index", Request("says"))
    ((hit,),) = open_index(tmp_path / "index").search(["x"], 2)
    assert (hit.id, hit.score, type(hit.score)) == ("3", 0.5, float)


class WithOptions(Says):
    """Has an option "depth"."""

    def check(self, request: Request) -> None:
        if request.options.keys() - {"depth"}:
            raise IndexFileError("the only option is depth")


def test_options_reach_the_kind_that_has_some(corpus: Path, tmp_path: Path, offer: Offer) -> None:
    kind = WithOptions()
    offer("indexes", "deep", kind)
    build(corpus, tmp_path / "index", Request("deep", options={"depth": 3}))
    assert kind.job is not None
    assert kind.job.request.options == {"depth": 3}
    with pytest.raises(IndexFileError, match="the only option is depth"):
        build(corpus, tmp_path / "other", Request("deep", options={"width": 3}))


@pytest.mark.parametrize("kind", ["bm25", "dense", "hybrid"])
def test_the_kinds_without_options_refuse_them(corpus: Path, tmp_path: Path, kind: str) -> None:
    with pytest.raises(
        IndexFileError, match=rf"a {kind} index has no options, but was given: a, b"
    ):
        build(corpus, tmp_path / "index", Request(kind, options={"b": 1, "a": 2}))


class Stopped(Exception):
    pass


class InTwoSteps(Says):
    """Is stopped after the first step, and tells whether its file was still there."""

    resumed = False

    def build(self, job: Job) -> Mapping[str, Any]:
        first = job.shards[0].folder / "first"
        self.resumed = first.exists()
        if not self.resumed:
            first.write_text("done")
            raise Stopped
        return {}


@pytest.mark.parametrize(("options", "goes_on"), [({}, True), ({"depth": 4}, False)])
def test_a_stopped_build_finds_what_it_left_for_the_same_request_alone(
    corpus: Path, tmp_path: Path, offer: Offer, options: dict[str, Any], goes_on: bool
) -> None:
    class Optional(InTwoSteps):
        def check(self, request: Request) -> None:
            pass

    kind = Optional()
    offer("indexes", "steps", kind)
    with pytest.raises(Stopped):
        build(corpus, tmp_path / "index", Request("steps"))
    if goes_on:
        build(corpus, tmp_path / "index", Request("steps", options=options))
    else:
        with pytest.raises(Stopped):
            build(corpus, tmp_path / "index", Request("steps", options=options))
    assert kind.resumed is goes_on
