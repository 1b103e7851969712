"""Check the page as a file: what it contains, what it must never contain, and how large it grows."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from helpers.journals import checked, week, write
from prompt_coevo.report.charts import thinned
from prompt_coevo.report.live import LivePage
from prompt_coevo.report.page import page, page_of
from prompt_coevo.report.reading import read_run
from prompt_coevo.report.run import RunError

HOSTILE = (
    "</pre></title><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}\x00\u202e$x$"
)


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_every_candidate_is_there_with_its_fate_and_its_trial(pages: dict[str, Path]) -> None:
    for path in pages.values():
        text = path.read_text()
        run = read_run(path.parent)
        for one in run.candidates.values():
            if one.origin != "empty":
                assert f'id="c-{one.id}"' in text
                assert text.count(one.fate) >= 1
        assert re.search(r"Trial at step \d", text) or path.parent.parent.name == "stream"


@pytest.mark.parametrize(
    ("settings", "numbers", "rollouts"),
    [({"algorithms": 5}, (1.0, 2.0), 1), ({}, (1e308, -1e308), 1), ({}, (1.0, 2.0), 10**400)],
)
def test_odd_numbers_stop_no_page(
    settings: dict[str, object], numbers: tuple[float, float], rollouts: int, tmp_path: Path
) -> None:
    begins = {"event": "run_begins", "journal": 1, "settings": settings}
    metrics = [
        {"event": "metrics", "step": step, "metrics": {"coevo/hard_samples": value}}
        for step, value in enumerate(numbers, 1)
    ]
    uses = {"event": "rewards", "step": 1, "uses": [["q", "t", rollouts, 0.5]]}
    assert "<svg" in page(write(tmp_path, [begins, *metrics, uses]))


@pytest.mark.parametrize(("updates", "together"), [(40, 0), (88, 3), (400, 10)])
def test_curves_of_many_updates_show_means(updates: int, together: int, tmp_path: Path) -> None:
    begins = {"event": "run_begins", "journal": 1, "settings": {}}
    metrics = [
        {"event": "metrics", "step": step, "metrics": {"coevo/hard_samples": step % 2}}
        for step in range(1, updates + 1)
    ]
    text = page(write(tmp_path, [begins, *metrics]))
    assert "weight update" in text
    said = re.findall(r"weight update \(means of up to (\d+)\)", text)
    assert set(said) == ({str(together)} if together else set())


@pytest.mark.parametrize("count", [1, 39, 40, 41, 79, 81, 88, 400, 4001])
def test_a_drawn_point_is_the_mean_of_a_few_neighbours(count: int) -> None:
    points = [(float(at), float(at % 7)) for at in range(count)]
    drawn = thinned(points)
    assert len(drawn) == min(count, 40)
    assert drawn[0][0] == pytest.approx((count // len(drawn) - 1) / 2)
    assert sorted(drawn) == drawn
    if count == 88:  # in twos and threes
        assert drawn[:2] == [(0.5, 0.5), (2.5, 2.5)]
        assert drawn[-1] == (86.0, pytest.approx((1 + 2 + 3) / 3))


def test_a_curve_without_points_has_none() -> None:
    assert thinned([]) == []


def test_a_refused_start_is_told_as_the_state(tmp_path: Path) -> None:
    refused = {"event": "run_refused", "reason": "no <model> answers"}
    told = "refused before the first step: no &lt;model&gt; answers"
    assert f"<dt>State</dt><dd>{told}</dd>" in page(write(tmp_path, [refused]))


def test_nothing_is_loaded_from_anywhere(pages: dict[str, Path]) -> None:
    for path in pages.values():
        for tag, attributes in Tags(path.read_text()).found:
            assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
            assert not {"src", "action", "srcset", "data"} & set(attributes)
            for name in ("href", "xlink:href"):
                assert (attributes.get(name) or "#").startswith("#")
            assert not [name for name in attributes if name.startswith("on")]
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', path.read_text())
        assert policy is not None
        assert policy[1].startswith("default-src &#39;none&#39;; script-src &#39;sha256-")


def test_links_lead_somewhere_and_no_two_things_have_one_name(pages: dict[str, Path]) -> None:
    for path in pages.values():
        found = Tags(path.read_text()).found
        ids = [attributes["id"] for _, attributes in found if "id" in attributes]
        assert len(ids) == len(set(ids))
        links = {attributes.get("href") for tag, attributes in found if tag == "a"}
        assert links <= {f"#{name}" for name in ids}


def test_hostile_texts_are_texts(tmp_path: Path) -> None:
    joined = {"event": "template_joined", "template": HOSTILE, "tried": 1, "solved": 1}
    events = [
        {"event": "text", "id": "t", "text": HOSTILE},
        {"event": "reply", "request": "r", "call": 1, "prompt": "t", "text": HOSTILE},
        checked("aaaa", HOSTILE, parents=[HOSTILE]),
        {**checked(HOSTILE, HOSTILE), "reason": None},
        joined,
        checked("bbbb", HOSTILE, reason=HOSTILE),
        {"event": "instruction_weights", "step": 1, "weights": {HOSTILE: 1.0, "$\\frac$": 0.5}},
        {"event": HOSTILE, "step": 2, HOSTILE: HOSTILE},
        {"event": "rewards", "step": 2, "uses": [[HOSTILE, HOSTILE, 1, 1.0]]},
    ]
    text = page(write(tmp_path, events))
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text
    assert "<img" not in text
    assert "{{ 7*7 }}" in text
    assert "49" not in re.sub(r"<svg.*?</svg>|[\d.]{3,}", "", text, flags=re.DOTALL)
    assert "⟨U+0000⟩⟨U+202E⟩" in text
    assert "\x00" not in text
    assert "\u202e" not in text
    assert text.count("<script>") == 1


@pytest.mark.parametrize("events", [[], [{"event": "training_ended", "metrics": {}}]])
def test_a_run_without_anything_has_a_page(events: list[dict[str, object]], tmp_path: Path) -> None:
    text = page(write(tmp_path, events))
    assert "There is no candidate yet." in text
    assert "No step has been measured yet." in text


def test_a_broken_journal_says_so_on_the_page(tmp_path: Path) -> None:
    folder = write(tmp_path, [checked("a", "x"), checked("b", "y")])
    path = folder / "events.jsonl"
    path.write_bytes(path.read_bytes()[100:-20])
    assert "The journal is not whole (unreadable lines: 2" in page(folder)


def test_a_long_run_is_folded_and_says_what_is_left_out(tmp_path: Path) -> None:
    """A tenth of a week's run; what is shown is capped, so a whole week makes no larger page."""
    folder = write(tmp_path, list(week(10_000)))
    text = page(folder)
    assert len(text.encode()) < 5_000_000
    cards = text.count('<details class="card"')
    assert cards == 200
    run = read_run(folder)
    rest = re.search(r"Older candidates are not shown one by one: ([^<]+)\. <code>", text)
    assert rest is not None
    assert sum(map(int, re.findall(r"\d+", rest[1]))) == len(run.candidates) - cards
    older = re.search(r"(\d+) older calls are in the sums alone", text)
    assert older is not None
    assert int(older[1]) == len(run.calls) - 200
    assert re.search(r"\d+ rows between these are left out here", text)
    assert re.search(r"\d+ more questions and \d+ more templates are not shown", text)


def test_the_live_page_is_that_of_the_whole_file_as_it_grows(tmp_path: Path) -> None:
    events = [checked("aaaa", "the first"), *week(200)]
    folder = write(tmp_path, events)
    path = folder / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))
    live = LivePage(folder)
    for number in range(3, len(lines) + 1, 99):
        path.write_bytes(b"".join(lines[:number]))
        live._next = 0.0  # not so soon after the last one, otherwise
        assert live.html == page_of(read_run(folder), live=True, state=live.state)
    path.write_bytes(b"".join(lines[:2]))  # another run in its place
    live._next = 0.0
    assert live.html == page_of(read_run(folder), live=True, state=live.state)


def test_the_live_page_of_another_versions_journal_is_refused_every_time(tmp_path: Path) -> None:
    folder = write(tmp_path, [])
    live = LivePage(folder)
    assert live.html
    with (folder / "events.jsonl").open("a") as file:
        file.write('{"event": "resumed", "journal": 7}\n')
    live._next = 0.0
    for _ in range(2):
        with pytest.raises(RunError, match="has format 7"):
            live.html  # noqa: B018


def test_a_chain_of_a_thousand_parents_is_drawn(tmp_path: Path) -> None:
    chain = [checked(f"{n:04d}", f"text {n}", parents=[f"{n - 1:04d}"]) for n in range(1, 1200)]
    circle = checked("0000", "text 0", parents=["1199"])
    text = page(write(tmp_path, [circle, *chain]))
    assert text.count('<details class="card"') == 200


def test_numbers_of_candidates_are_named_in_the_plural(pages: dict[str, Path]) -> None:
    names = re.findall(r"<dt>Candidates (.*?)</dt>", "".join(map(Path.read_text, pages.values())))
    assert "lost their trial" in names
    assert not [name for name in names if "its trial" in name]
