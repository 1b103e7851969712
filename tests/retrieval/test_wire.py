"""Check the wire format against requests from clients and replies from servers in the field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.retrieval_server import echo
from helpers.wire_forms import CLIENTS, SERVERS, ClientForm, ServerForm
from prompt_coevo.retrieval.errors import QueryError, RetrieverUnavailable, SearchFailed
from prompt_coevo.retrieval.retriever import Hit, IndexInfo, Limits
from prompt_coevo.retrieval.wire import (
    MalformedRequest,
    WireRequest,
    read_error,
    read_health,
    read_reply,
    read_request,
    write_error,
    write_health,
    write_reply,
    write_request,
)

LIMITS = Limits(max_k=10, max_query_chars=100, max_queries=4)


def read(body: bytes) -> WireRequest:
    return read_request(body, default_k=3, limits=LIMITS)


@pytest.mark.parametrize("form", CLIENTS, ids=lambda form: form.name)
def test_requests_of_the_field_are_understood(form: ClientForm) -> None:
    request = read(form.body)
    assert (request.queries, request.k) == (form.queries, form.k)
    found = [echo(query, request.k) for query in request.queries]
    reply = json.loads(write_reply(found, request.return_scores))
    assert list(reply) == ["result"]
    for items, hits in zip(reply["result"], found, strict=True):
        assert form.texts(items) == [hit.contents for hit in hits]


@pytest.mark.parametrize("form", SERVERS, ids=lambda form: form.name)
def test_replies_of_the_field_are_understood(form: ServerForm) -> None:
    (hits,) = read_reply(form.body, count=1, k=3)
    assert [(hit.id, hit.contents, hit.score) for hit in hits] == form.hits
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))


def test_both_reply_forms_are_search_r1s() -> None:
    hits = [[Hit("7", '"Paris"\nA city.', 0.5, 1)], []]
    document = {"id": "7", "contents": '"Paris"\nA city.'}
    assert json.loads(write_reply(hits, True)) == {
        "result": [[{"document": document, "score": 0.5}], []]
    }
    assert json.loads(write_reply(hits, False)) == {"result": [[document], []]}


@pytest.mark.parametrize(("topk", "k"), [("null", 3), ("0", 3), ("1", 1), ("10", 10)])
def test_topk(topk: str, k: int) -> None:
    assert read(b'{"queries": ["a"], "topk": %b}' % topk.encode()).k == k


def test_unknown_fields_pass() -> None:
    request = read(b'{"queries": ["a"], "return_scores": null, "model": "e5"}')
    assert request == WireRequest(["a"], 3, False)
    assert read(b'{"queries": []}').queries == []


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        (b'""', "is empty"),
        (b'" \\n "', "is empty"),
        (b"3", "must be a text, but is a int"),
        (b"null", "must be a text, but is a NoneType"),
        (b'["a"]', "must be a text, but is a list"),
        (b'"a \\ud800"', "holds half of a surrogate pair, which is no character"),
        (b'"a \xed\xa0\x80"', "holds half of a surrogate pair, which is no character"),
    ],
)
def test_a_broken_query_is_refused_and_the_others_are_not(query: bytes, problem: str) -> None:
    request = read(b'{"queries": ["a", %b, "b \\ud83d\\ude00"], "return_scores": true}' % query)
    assert request == WireRequest(["a", "b 😀"], 3, True, {1: f"the query {problem}"})
    hits = [echo("a", 1), echo("b", 1)]
    placed = request.placed(hits)
    assert (placed[0], placed[2]) == tuple(hits)
    assert isinstance(placed[1], QueryError)
    assert json.loads(write_reply(placed, True))["errors"] == [None, f"the query {problem}", None]


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("a" * 101, "a" * 100),
        ("word " * 30, ("word " * 20).strip()),
        ("b" * 60 + " " + "c" * 60, "b" * 60),
        ("b" * 100 + " c", "b" * 100),
        ("大" * 200, "大" * 100),
        (" " * 200 + "a b", "a b"),
        (" " * 200, ""),
    ],
)
def test_a_long_query_is_cut_at_the_end_of_a_word(query: str, kept: str) -> None:
    request = read(json.dumps({"queries": ["x", query]}).encode())
    assert request.queries == (["x", kept] if kept else ["x"])
    assert request.cut == (len(query),)
    assert bool(request.refused) is not bool(kept)
    assert read(json.dumps({"queries": ["a" * 100]}).encode()).cut == ()


def test_errors_come_back_as_they_were() -> None:
    attempts = [
        echo("a", 2),
        QueryError("the query is empty"),
        ValueError("the index broke"),
        SearchFailed("a \ud800"),
    ]
    back = read_reply(write_reply(attempts, True), count=4, k=3)
    assert back[0] == attempts[0]
    told = [(type(one), str(one)) for one in back[1:]]
    assert told == [
        (QueryError, "the query is empty"),
        (SearchFailed, "the search failed: ValueError: the index broke"),
        (SearchFailed, "a ?"),
    ]


@pytest.mark.parametrize(
    "fields", [b'"errors": "none"', b'"errors": ["x", "y"]', b'"errors": [7]', b'"errors": null']
)
def test_other_servers_fields_are_passed_over(fields: bytes) -> None:
    body = b'{"result": [[{"id": "1", "contents": "x"}]], %b}' % fields
    assert read_reply(body, count=1, k=3) == [[Hit("1", "x", 0.0, 1)]]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not valid JSON"),
        (b'{"queries": ["a"]', "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b'{"queries": ["\\ud800"', "not valid JSON"),
        (b'{"queries": ["\\ud800", NaN]}', "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_what_is_no_json_is_malformed(body: bytes, message: str) -> None:
    with pytest.raises(MalformedRequest, match=message):
        read(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", "must be an object"),
        (b"{}", '"queries", a list'),
        (b'{"queries": "a"}', '"queries", a list'),
        (b'{"queries": ["a"], "topk": -1}', "k must be a number from 1 to 10, but is -1"),
        (b'{"queries": ["a"], "topk": 11}', "k must be a number from 1 to 10"),
        (b'{"queries": ["a"], "topk": "3"}', "k must be a number from 1 to 10, but is '3'"),
        (b'{"queries": ["a"], "topk": true}', "k must be a number"),
        (b'{"queries": ["a"], "topk": false}', "k must be a number"),
        (b'{"queries": ["a"], "topk": 1.5}', "k must be a number"),
        (b'{"queries": ["a"], "return_scores": 1}', "return_scores must be true or false"),
        (b'{"queries": ["a", "a", "a", "a", "a"]}', "5 queries at once"),
    ],
)
def test_what_does_not_fit_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        read(body)


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), max_size=4))
def test_requests_come_back_as_they_were(queries: list[str]) -> None:
    request = read(write_request(queries, 5))
    assert (request.queries, request.k) == ([query for query in queries if query.strip()], 5)
    assert list(request.refused) == [n for n, query in enumerate(queries) if not query.strip()]


@given(st.lists(st.lists(st.tuples(st.text(st.characters(codec="utf-8")), st.floats(-9, 9)))))
def test_replies_come_back_as_they_were(content: list[list[tuple[str, float]]]) -> None:
    found = [
        [Hit(f"id {rank}", text, score, rank) for rank, (text, score) in enumerate(one, 1)]
        for one in content
    ]
    assert read_reply(write_reply(found, True), count=len(found), k=1000) == found


def test_a_query_with_half_a_surrogate_pair_cannot_be_sent() -> None:
    with pytest.raises(QueryError, match="cannot be sent as UTF-8"):
        write_request(["\ud800"], 3)


def test_a_passage_with_half_a_surrogate_pair_is_sent_without_it() -> None:
    found = [[Hit("1", "a\ud800b", 1.0, 1), Hit("2", "é", 0.5, 2)]]
    (hits,) = read_reply(write_reply(found, True), count=1, k=3)
    assert [hit.contents for hit in hits] == ["a?b", "é"]


ROW = {"title": "Paris", "text": "A city.", "url": "https://example.org", "more": [1, {"a": None}]}


def test_documents_are_whole_rows_and_come_back_so() -> None:
    hits = [Hit("7", '"Paris"\nA city.', 0.5, 1, ROW), Hit("8", "x", 0.25, 2)]
    whole = {"id": "7", "contents": '"Paris"\nA city.', **ROW}
    with_scores, bare = (json.loads(write_reply([hits], scores)) for scores in (True, False))
    assert with_scores["result"][0][0] == {"document": whole, "score": 0.5}
    assert bare["result"][0][0] == whole
    assert read_reply(write_reply([hits], True), count=1, k=3) == [hits]


@pytest.mark.parametrize("value", [10**30, {1: 2}, [[[]]] * 3 + ["\ud800"]])
def test_a_field_that_cannot_be_sent_is_left_out(value: Any) -> None:
    odd = [Hit("7", "x", 0.5, 1, {"title": "T", "odd": value}), Hit("8", "y", 0.25, 2, {"a": "b"})]
    for scores in (True, False):
        ((one, two),) = read_reply(write_reply([odd], scores), count=1, k=3)
        assert (one.id, one.contents, one.fields) == ("7", "x", {"title": "T"})
        assert (two.id, two.contents, two.fields) == ("8", "y", {"a": "b"})


@pytest.mark.parametrize("more", [{}, {"odd": 10**30}])
def test_a_row_may_have_fields_that_are_named_as_those_of_the_reply(more: dict[str, Any]) -> None:
    row = {"document": "a.pdf", "score": 3, "result": []}
    for scores in (True, False):
        body = write_reply([[Hit("7", "x", 0.5, 1, {**row, **more})]], scores)
        ((hit,),) = read_reply(body, count=1, k=3)
        assert (hit.id, hit.contents, hit.fields) == ("7", "x", row)


def test_a_field_cannot_stand_for_the_passage() -> None:
    hits = [Hit("7", "x", 0.5, 1, {"id": "9", "contents": "y"})]
    assert read_reply(write_reply([hits], True), count=1, k=3) == [[Hit("7", "x", 0.5, 1)]]


def test_more_hits_than_asked_for_are_cut() -> None:
    (hits,) = read_reply(write_reply([echo("a", 5)], True), count=1, k=2)
    assert hits == echo("a", 2)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>hello</html>",
        b"[]",
        b'{"results": []}',
        b'{"result": []}',
        b'{"result": [[], []]}',
        b'{"result": null}',
        b'{"result": [null]}',
        b'{"result": [[null]]}',
        b'{"result": [[{"document": null, "score": 1}]]}',
        b'{"result": [[{"document": {"id": "1"}, "score": 1}]]}',
        b'{"result": [[{"document": {"id": "1", "contents": "x"}, "score": "high"}]]}',
    ],
)
def test_other_replies_are_no_answer(body: bytes) -> None:
    with pytest.raises(RetrieverUnavailable, match="not in Search-R1's format"):
        read_reply(body, count=1, k=3)


def test_errors_are_read_from_ours_fastapis_and_anything() -> None:
    assert read_error(write_error("too long")) == "too long"
    assert read_error(b'{"detail": "Not Found"}') == "Not Found"
    assert "missing" in read_error(b'{"detail": [{"msg": "missing"}]}')
    assert read_error(b"Internal Server Error") == "Internal Server Error"
    assert len(read_error(b"x" * 10_000)) == 300


def test_health_says_what_is_searched() -> None:
    info = IndexInfo("bm25", 21_015_324, "abc", {"words": 3})
    assert read_health(write_health(info)) == info
    with pytest.raises(RetrieverUnavailable, match="does not say what is searched"):
        read_health(b'{"status": "ok"}')


DEEP = b"[" * 1020 + b"]" * 1020
"""As deep as the parser accepts, and deeper than repr can show."""


@pytest.mark.parametrize("field", [b"topk", b"return_scores"])
def test_a_request_that_nests_deep_is_the_clients_mistake(field: bytes) -> None:
    body = b'{"queries": ["a"], "%b": %b}' % (field, DEEP)
    with pytest.raises(QueryError, match="but is a list"):
        read_request(body, default_k=3, limits=Limits())


def test_a_long_text_in_the_wrong_place_is_not_sent_back_whole() -> None:
    body = b'{"queries": ["a"], "topk": "%b"}' % (b"x" * 10_000)
    with pytest.raises(QueryError) as caught:
        read_request(body, default_k=3, limits=Limits())
    assert len(str(caught.value)) < 200


def test_an_answer_that_nests_deep_is_no_answer() -> None:
    with pytest.raises(RetrieverUnavailable, match="not in Search-R1's format"):
        read_reply(b'{"result": [[{"id": %b, "contents": "x"}]]}' % DEEP, count=1, k=1)
    with pytest.raises(RetrieverUnavailable, match="does not say what is searched"):
        read_health(
            b'{"index": {"kind": %b, "passages": 1, "fingerprint": "", "details": {}}}' % DEEP
        )
    assert read_error(b'{"error": %b}' % DEEP).startswith('{"error": [[')


def test_health_without_details_is_none() -> None:
    with pytest.raises(RetrieverUnavailable, match="does not say what is searched"):
        read_health(b'{"index": {"kind": "a", "passages": 1, "fingerprint": "", "details": 7}}')


def test_details_that_cannot_be_sent_are_left_out() -> None:
    info = IndexInfo("bm25", 3, "abc", {"words": 10**30})
    assert read_health(write_health(info)) == IndexInfo("bm25", 3, "abc", {})


@pytest.mark.parametrize("passages", [b"1e30", b'"3"', b"null"])
def test_health_with_no_number_of_passages_is_none(passages: bytes) -> None:
    body = b'{"index": {"kind": "a", "passages": %b, "fingerprint": "", "details": {}}}' % passages
    with pytest.raises(RetrieverUnavailable, match="does not say what is searched"):
        read_health(body)
