"""Check shards on several servers: their merged answers are those of the whole index, or are marked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.passages import queries, write_corpus
from helpers.retrieval_server import PATIENT, EchoRetriever, echo, free_port, serving
from helpers.scripted_http import Reply, echoed, scripted
from helpers.tiny_encoder import save_tiny_encoder
from prompt_coevo.errors import SettingsError
from prompt_coevo.retrieval.agent.tool import SearchTool
from prompt_coevo.retrieval.batcher import Batcher, DeadlineExceeded
from prompt_coevo.retrieval.client.client import RemoteRetriever
from prompt_coevo.retrieval.client.sharded import ShardedRetriever
from prompt_coevo.retrieval.errors import (
    IndexFileError,
    QueryError,
    ReplicasDiffer,
    RetrieverUnavailable,
    SearchFailed,
)
from prompt_coevo.retrieval.index.build import Request, build
from prompt_coevo.retrieval.index.open import open_index
from prompt_coevo.retrieval.named import open_retriever
from prompt_coevo.retrieval.outcomes import Attempt, PartialHits
from prompt_coevo.retrieval.retriever import UNLIMITED, Hit, IndexInfo, Limits
from prompt_coevo.retrieval.shards import ShardOf
from prompt_coevo.retrieval.wire import read_reply, write_reply
from prompt_coevo.retrieval.worker import Worker

SHARDS, COUNT = 3, 240
ASKED = [text for text, _ in queries(20, of=COUNT)] + ["twin", "painter", "which sailor also"]
NOWHERE = f"http://127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a corpus with equal passages in all shards, and fields besides the text."""
    path = write_corpus(tmp_path_factory.mktemp("corpus") / "corpus.jsonl", COUNT)
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for number, row in enumerate(rows):
        row["url"] = f"https://example.org/{number}"
        if number % 20 == 7:
            row["contents"] = '"Twin"\nThe same text in every shard.'
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


@pytest.fixture(scope="module")
def index(corpus: Path) -> Path:
    build(corpus, corpus.with_name("index"), Request("bm25", shards=SHARDS))
    return corpus.with_name("index")


@pytest.fixture(scope="module")
def served(index: Path) -> Iterator[list[str]]:
    with serving_shards(index) as addresses:
        yield addresses


@contextlib.contextmanager
def serving_shards(index: Path, count: int = SHARDS) -> Iterator[list[str]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(serving(open_index(index, shard=number)))
            for number in range(1, count + 1)
        ]


def ready(address: str) -> None:
    """Wait until the server answers."""
    remote = RemoteRetriever(address, total_timeout_s=3600)
    remote.info()
    remote.close()


@contextlib.contextmanager
def joined(shards: list[Any], **options: Any) -> Iterator[ShardedRetriever]:
    retriever = open_retriever("sharded", {"shards": shards, "total_timeout_s": 3600, **options})
    assert isinstance(retriever, ShardedRetriever)
    yield retriever
    retriever.close()


@pytest.mark.parametrize("kind", ["bm25", "Flat", "SQfp16"])
def test_the_front_answers_as_the_whole_index(kind: str, corpus: Path, tmp_path: Path) -> None:
    request = Request("bm25", shards=SHARDS)
    if kind != "bm25":
        pytest.importorskip("torch")
        encoder = save_tiny_encoder(tmp_path / "encoder", ASKED)
        request = Request("dense", f"e5:{encoder}", kind, shards=SHARDS)
    build(corpus, tmp_path / "index", request)
    whole = open_index(tmp_path / "index")
    with (
        serving_shards(tmp_path / "index") as addresses,
        joined(addresses) as merging,
        serving(merging) as front,
    ):
        remote = RemoteRetriever(front, total_timeout_s=3600)
        for k in (1, 3, 50):
            expected = whole.search(ASKED, k)
            assert merging.search(ASKED, k) == expected
            assert remote.search(ASKED, k) == expected
        twins = expected[ASKED.index("twin")]
        assert [hit.score for hit in twins].count(twins[0].score) > 3
        assert remote.info().fingerprint == whole.info().fingerprint
        assert remote.info().passages == COUNT
        assert (merging.info().kind, merging.info().passages) == (whole.info().kind, COUNT)
        remote.close()
    whole.close()


def test_a_shard_has_its_own_fingerprint_and_says_what_it_is(index: Path) -> None:
    whole = open_index(index).info()
    shards = [open_index(index, shard=number).info() for number in (1, 2, 3)]
    assert len({info.fingerprint for info in (whole, *shards)}) == 4
    assert sum(info.passages for info in shards) == COUNT
    for number, info in enumerate(shards, 1):
        assert ShardOf.read(info.details) == ShardOf(whole.fingerprint, number, SHARDS, COUNT)
    assert sum(info.details["bytes"] for info in shards) < whole.details["bytes"]


@pytest.mark.parametrize("shard", [0, 4])
def test_a_shard_that_an_index_does_not_have_is_one_sentence(index: Path, shard: int) -> None:
    with pytest.raises(IndexFileError, match=rf"has the shards 1 to 3, but no shard {shard}; "):
        open_index(index, shard=shard)


def test_a_hybrid_index_in_shards_is_one_sentence(corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    encoder = f"e5:{save_tiny_encoder(tmp_path / 'encoder', ASKED)}"
    build(corpus, tmp_path / "index", Request("hybrid", encoder, "Flat", shards=2))
    with pytest.raises(IndexFileError, match="cannot be searched alone, because it is a hybrid"):
        open_index(tmp_path / "index", shard=1)


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("12", "searches shard 1 of 3, but was named as shard 1 of 2; name the servers of every"),
        ("132", "searches shard 3 of 3, but was named as shard 2 of 3; name the servers of every"),
        ("w23", "does not search a shard alone; start it by: .* serve INDEX --shard 1"),
        ("12o", "shard 3 of 3 at .* is of the index .*, but shard 1 is of .*; name servers of one"),
        ("1(2o)3", "the retrieval servers do not search the same index"),
    ],
)
@pytest.mark.parametrize("partial", [False, True])
def test_shards_that_do_not_belong_together_are_refused(
    named: str, told: str, partial: bool, served: list[str], index: Path, tmp_path: Path
) -> None:
    build(write_corpus(tmp_path / "corpus.jsonl", COUNT), tmp_path / "other", Request(shards=3))
    with (
        serving(open_index(index)) as whole,
        serving(open_index(tmp_path / "other", shard=2 if "(" in named else 3)) as other,
    ):
        for address in (*served, whole, other):
            ready(address)  # whoever is still warming up is not compared
        at = dict(zip("123", served, strict=True)) | {"w": whole, "o": other}
        shards = (
            [at["1"], [at["2"], at["o"]], at["3"]] if "(" in named else [at[one] for one in named]
        )
        with joined(shards, partial=partial) as merging:
            for _ in range(2):
                with pytest.raises(ReplicasDiffer, match=told):
                    merging.search(["painter"], 3)
            with pytest.raises(ReplicasDiffer, match=told):
                SearchTool(merging).search(["painter"])


def test_another_server_at_a_shards_address_gives_no_wrong_answer(
    served: list[str], index: Path
) -> None:
    """A new server may get the port of one that has ended."""
    here = open_index(index)

    def nobody_known(path: str, body: dict[str, Any] | None) -> Reply:
        return echoed(body) if body is not None else Reply(status=404)

    with (
        scripted(nobody_known) as strange,
        joined(served, total_timeout_s=0.5, cache_size=0) as merging,
    ):
        assert merging.search(ASKED[:2], 3) == here.search(ASKED[:2], 3)
        for address, told in ((served[2], "3of3"), (strange.address, "'none'")):
            merging.change_urls(2, [address])
            with pytest.raises(
                RetrieverUnavailable, match=f"shard 2 of 3: .* has the fingerprint .*{told}"
            ):
                merging.search(["twin"], 3)
        merging.change_urls(2, [served[2], strange.address, served[1]])
        assert merging.search(["twin"], 3) == here.search(["twin"], 3)


@pytest.mark.parametrize("status", [400, 404, 405, 413, 422, 500])
def test_what_another_server_refuses_is_an_outage(status: int, served: list[str]) -> None:
    with scripted(lambda path, body: Reply(b"no such page", status)) as strange:
        with joined(served, total_timeout_s=0.5) as merging:
            until(lambda: isinstance(asyncio.run(merging.search_each(["q"], 3))[0], list))
            merging.change_urls(2, [strange.address])
            for ask in (lambda: merging.search(["twin"], 3), merging.info):
                with pytest.raises(RetrieverUnavailable, match="no retrieval server answered"):
                    ask()
        with joined(served, cache_size=0) as merging:
            expected = merging.search(["twin"], 3)
            merging.change_urls(2, [strange.address, served[1]])
            for _ in range(4):
                assert merging.search(["twin"], 3) == expected


def test_what_a_shards_own_server_refuses_is_no_outage(index: Path) -> None:
    small = replace(PATIENT, limits=Limits(max_k=2), default_k=2)
    with contextlib.ExitStack() as stack:
        shards = [
            stack.enter_context(serving(open_index(index, shard=number), small))
            for number in (1, 2, 3)
        ]
        with joined(shards) as merging:
            merging.search(["twin"], 2)
            with pytest.raises(QueryError, match="k must be a number from 1 to 2"):
                merging.search(["twin"], 3)


def test_a_front_may_have_other_limits(served: list[str], index: Path) -> None:
    with joined(served, limits=Limits(max_k=2, max_query_chars=9)) as merging:
        (hits,) = merging.search(["painter"], 2)
        assert len(hits) == 2
        for query, k in (("painter", 3), ("painter painter", 2)):
            with pytest.raises(QueryError, match="2|9"):
                merging.search([query], k)
            (attempt,) = asyncio.run(merging.search_each([query], k))
            assert isinstance(attempt, QueryError)


def test_a_front_has_no_limits_but_its_servers() -> None:
    """`serve --retriever sharded --set max_k=200` sets the limit of the server, not of the retriever."""
    many = replace(PATIENT, limits=Limits(max_k=200))
    with (
        serving(OneShard(1), many) as one,
        serving(OneShard(2), many) as two,
        joined([one, two]) as merging,
        serving(merging, many) as front,
        contextlib.closing(RemoteRetriever(front, limits=UNLIMITED)) as remote,
    ):
        assert len(remote.search(["q"], 150)[0]) == 150
        with pytest.raises(QueryError, match="k must be a number from 1 to 200, but is 201"):
            remote.search(["q"], 201)


def test_searches_that_wait_for_the_first_answer_wait_together() -> None:
    """Otherwise each would wait for as long as all before it."""
    asked: list[str] = []
    all_wait = threading.Event()

    def hang(path: str, body: dict[str, Any] | None) -> Reply:
        asked.append(path)
        all_wait.wait()
        return Reply(status=503, headers={"retry-after": "3600"})

    async def at_once(merging: ShardedRetriever) -> list[list[Attempt]]:
        all_wait.clear()
        waiting = [asyncio.create_task(merging.search_each([f"q{n}"], 3)) for n in range(20)]
        await asyncio.sleep(0)  # by now all are on their way to the client's thread
        all_wait.set()
        return await asyncio.gather(*waiting)

    with scripted(hang) as warming, joined([warming.address], total_timeout_s=3600) as merging:
        for round_ in (1, 2):
            for (attempt,) in asyncio.run(at_once(merging)):
                assert isinstance(attempt, RetrieverUnavailable)
            assert len(asked) == round_


def test_whoever_waits_for_the_first_answer_hears_that_it_was_closed() -> None:
    errors: list[BaseException] = []

    def ask(merging: ShardedRetriever) -> None:
        with pytest.raises(RetrieverUnavailable, match="closed") as raised:
            merging.search(["painter"], 3)
        errors.append(raised.value)

    entered = threading.Event()

    def warming_up(path: str, body: dict[str, Any] | None) -> Reply:
        entered.set()
        return Reply(status=503)

    with scripted(warming_up) as one, joined([one.address]) as merging:
        asking = threading.Thread(target=ask, args=(merging,), daemon=True)
        asking.start()
        entered.wait()
        merging.close()
        asking.join(60)
        assert len(errors) == 1


def test_a_password_in_an_address_is_shown_to_nobody(served: list[str]) -> None:
    addresses = [one.replace("//", "//me:pa55w0rd@") for one in served]
    with joined(addresses, partial=True, total_timeout_s=2.0) as merging, serving(merging) as front:
        remote = RemoteRetriever(front, total_timeout_s=3600)
        remote.search(["painter"], 3)
        assert served[0] in str(remote.info())
        merging.change_urls(3, [NOWHERE.replace("//", "//me:pa55w0rd@")])
        (partial,) = asyncio.run(remote.search_each(["twin"], 3))
        assert isinstance(partial, PartialHits)
        assert "pa55w0rd" not in f"{remote.info()} {partial.reason}"
        remote.close()
    with (
        joined([addresses[1]]) as merging,
        pytest.raises(ReplicasDiffer, match=f"^{served[1]}/retrieve searches shard 2"),
    ):
        merging.search(["painter"], 3)


def test_a_search_waits_for_a_shard_until_it_has_a_new_address(
    served: list[str], index: Path
) -> None:
    with joined(served, cache_size=0) as merging:
        expected = merging.search(ASKED, 5)
        for gone in ([], [NOWHERE]):
            merging.change_urls(2, gone)
            found: list[list[list[Hit]]] = []
            asking = threading.Thread(target=lambda: found.append(merging.search(ASKED, 5)))  # noqa: B023
            asking.start()
            asking.join(0.3)
            assert not found
            merging.change_urls(2, [served[1]])
            asking.join()
            assert found == [expected]


def test_without_a_shard_there_is_no_answer_after_the_time(served: list[str]) -> None:
    with joined([served[0], NOWHERE, served[2]], total_timeout_s=0.5) as merging:
        for ask in (lambda: merging.search(["painter"], 3), merging.info):
            with pytest.raises(RetrieverUnavailable, match=r"^shard 2 of 3: no retrieval server"):
                ask()
        (attempt,) = asyncio.run(merging.search_each(["painter"], 3))
        assert isinstance(attempt, RetrieverUnavailable)


def until(holds: Callable[[], bool]) -> None:
    waiting = threading.Event()
    while not holds():
        waiting.wait(0.05)


def test_partial_answers_are_marked_and_not_kept(served: list[str], index: Path) -> None:
    whole = open_index(index).search(ASKED, 50)
    third = open_index(index, shard=3).search(ASKED, 50)
    with (
        joined(served, partial=True, total_timeout_s=5.0) as merging,
        serving(merging) as front,
    ):
        remote = RemoteRetriever(front, total_timeout_s=3600)
        merging.change_urls(3, [])
        found = asyncio.run(remote.search_each(ASKED, 50))
        told = "1 of 3 shards did not answer: shard 3 of 3: no retrieval server answered"
        for hits, all_hits, lost in zip(found, whole, third, strict=True):
            assert isinstance(hits, PartialHits)
            assert hits.reason.startswith(told)
            ids = {hit.id for hit in lost}
            rest = [hit.id for hit in all_hits if hit.id not in ids]
            assert [hit.id for hit in hits][: len(rest)] == rest
            assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
        with urllib.request.urlopen(f"{front}/metrics") as reply:
            assert f"partial_queries_total {len(ASKED)}\n" in reply.read().decode()
        merging.change_urls(3, [served[2]])
        until(lambda: not isinstance(asyncio.run(remote.search_each(["probe"], 1))[0], PartialHits))
        assert remote.search(ASKED, 50) == whole
        remote.close()


def test_a_shard_that_is_missing_from_the_beginning_is_left_out(
    served: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    shards = [served[0], served[1], NOWHERE]
    with joined(shards, partial=True, total_timeout_s=0.5) as merging:
        for _ in range(3):
            (hits,) = merging.search(["painter"], 3)
            assert isinstance(hits, PartialHits)
        assert merging.info().passages == COUNT
        merging.change_urls(3, [served[2]])
        until(lambda: not isinstance(merging.search(["painter"], 3)[0], PartialHits))
    logged = [record.message for record in caplog.records]
    assert len(logged) == 2
    assert logged[0].startswith("answers are partial until it is back: shard 3 of 3: ")
    assert logged[1] == "shard 3 of 3 is back"


def test_a_front_waits_for_a_shard_that_is_missing_when_it_starts(
    served: list[str], index: Path
) -> None:
    with (
        joined([served[0], NOWHERE, served[2]], total_timeout_s=2.0) as merging,
        serving(merging, waits=True) as front,
    ):
        remote = RemoteRetriever(front, total_timeout_s=5.0)
        with pytest.raises(RetrieverUnavailable, match="warming up"):
            remote.info()
        remote.close()
        merging.change_urls(2, [served[1]])
        remote = RemoteRetriever(front, total_timeout_s=3600)
        assert remote.search(ASKED[:3], 3) == open_index(index).search(ASKED[:3], 3)
        remote.close()


def test_nothing_is_no_partial_answer(served: list[str]) -> None:
    with joined(served, partial=True, total_timeout_s=0.5) as merging:
        merging.info()
        for number in (1, 2, 3):
            merging.change_urls(number, [])
        for _ in range(2):
            with pytest.raises(RetrieverUnavailable, match="shard 1 of 3"):
                merging.search(["painter"], 3)


class OneShard(EchoRetriever):
    """Shard `number` of 2, made of echoes."""

    def __init__(self, number: int) -> None:
        self._is = ShardOf("echo", number, 2, 9)
        super().__init__(self._is.fingerprint)

    def info(self) -> IndexInfo:
        return IndexInfo("echo", 5, self.fingerprint, self._is.details())


@pytest.mark.parametrize("partial", [False, True])
def test_one_bad_query_is_its_own_error(partial: bool) -> None:
    class Refusing(OneShard):
        def search(self, queries: Any, k: int) -> list[list[Hit]]:
            if "refused" in queries:
                raise QueryError("query 0 is refused")
            return super().search(queries, k)

    with (
        serving(OneShard(1)) as one,
        serving(Refusing(2)) as two,
        joined([one, two], partial=partial) as merging,
    ):
        fine, refused = asyncio.run(merging.search_each(["fine", "refused"], 2))
        assert isinstance(fine, list)
        assert [(hit.id, hit.rank) for hit in fine] == [("fine/1", 1), ("fine/1", 2)]
        assert isinstance(refused, QueryError)
        assert str(refused) == "the query is refused"
        with pytest.raises(SearchFailed, match=r"^shard 1 of 2: .* could not search"):
            merging.search(["boom"], 2)
        with pytest.raises(QueryError):
            merging.search([" "], 2)


def test_a_partial_answer_is_read_as_it_was_written() -> None:
    found: list[Attempt] = [echo("a", 2), PartialHits(echo("b", 2), "one is missing"), []]
    found += [QueryError("no"), SearchFailed("broke"), PartialHits([], "empty")]
    for last in ([], [PartialHits([Hit("1", "half \ud800", 1.0, 1)], "odd")]):
        attempts = [*found, *last]
        back = read_reply(write_reply(attempts, True), count=len(attempts), k=2)
        assert back[:3] == attempts[:3]
        assert [type(one) for one in back] == [type(one) for one in attempts]
        assert [str(one) for one in back[3:5]] == ["no", "broke"]
        marked = [one.reason for one in back if isinstance(one, PartialHits)]
        assert marked == ["one is missing", "empty", *["odd" for _ in last]]
        assert json.loads(write_reply(attempts, False))["failed"] == [4]
    assert b"partial" not in write_reply([echo("a", 1)], True)


def test_a_partial_answer_that_came_too_late_is_not_kept() -> None:
    gate, answers = threading.Event(), [PartialHits(echo("a", 1), "part"), echo("a", 2)]

    def search(queries: Any, k: int) -> list[list[Hit]]:
        gate.wait()
        return [answers.pop(0)]

    async def twice() -> list[Attempt]:
        batcher = Batcher(search, Worker("test"))
        with pytest.raises(DeadlineExceeded):
            await batcher.search_each(["a"], 2, deadline_s=0.05)
        gate.set()
        return await batcher.search_each(["a"], 2)

    assert asyncio.run(twice()) == [echo("a", 2)]


@pytest.mark.parametrize("shards", [[], "http://a:8000", [[]]])
def test_no_shards_are_one_sentence(shards: Any) -> None:
    with pytest.raises(SettingsError, match="address"):
        ShardedRetriever(shards)
