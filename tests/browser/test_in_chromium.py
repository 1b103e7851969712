"""Check the page in a real browser: two widths, two themes, keyboard, no JavaScript, hostile texts, axe."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from helpers.journals import checked, write
from prompt_coevo.report.live import server
from prompt_coevo.report.page import page
from prompt_coevo.report.reading import read_run

Open = Callable[..., Page]
KINDS = ["p2o", "stream", "inspo"]


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_wider_than_the_window(
    kind: str, width: int, opened: Open, pages: dict[str, Path]
) -> None:
    shown = opened(pages[kind], width=width)
    shown.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert shown.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize(
    ("kind", "theme"),
    [("p2o", "light"), ("stream", "light"), ("inspo", "light"), ("p2o", "dark")],
)
def test_axe_finds_no_violation(
    kind: str, theme: str, opened: Open, pages: dict[str, Path]
) -> None:
    shown = opened(pages[kind], width=360, theme=theme)
    shown.evaluate(
        "[...document.querySelectorAll('details:not(.card)'), "
        "...[...document.querySelectorAll('details.card')].slice(0, 3)].forEach((one) => one.open = true)"
    )
    found = Axe().run(shown)
    assert found.violations_count == 0, found.generate_report()


def test_the_theme_is_the_readers(opened: Open, pages: dict[str, Path]) -> None:
    colours = set()
    for theme in ("light", "dark"):
        shown = opened(pages["stream"], theme=theme)
        line = shown.evaluate(
            "getComputedStyle(document.querySelector('svg path[style*=series]')).stroke"
        )
        colours |= {shown.evaluate("getComputedStyle(document.body).backgroundColor"), line}
    assert len(colours) == 4


@pytest.mark.parametrize("script", [True, False])
def test_the_keyboard_alone_leads_from_the_lineage_to_a_candidate_and_unfolds_it(
    script: bool, opened: Open, pages: dict[str, Path]
) -> None:
    shown = opened(pages["p2o"], script=script)
    for _ in range(60):
        shown.keyboard.press("Tab")
        target = shown.locator(":focus").get_attribute("href") or ""
        if target.startswith("#c-"):
            break
    card = shown.locator(f"[id='{target[1:]}']")
    assert not card.is_visible()
    shown.keyboard.press("Enter")
    card.wait_for(state="visible", timeout=5000)
    summary = card.locator("xpath=../summary")
    summary.focus()
    shown.keyboard.press("Enter")
    card.wait_for(state="hidden", timeout=5000)


def test_every_summary_can_be_reached_by_tab(opened: Open, pages: dict[str, Path]) -> None:
    shown = opened(pages["p2o"])
    wanted = shown.evaluate("[...document.querySelectorAll('details.card')].map((one) => one.id)")
    assert wanted
    missing = set(wanted)
    for _ in range(150):
        shown.keyboard.press("Tab")
        missing.discard(shown.evaluate("document.activeElement.parentElement?.id || ''"))
        if not missing:
            break
    assert not missing


def test_a_cell_of_the_grid_leads_to_its_template(opened: Open, pages: dict[str, Path]) -> None:
    shown = opened(pages["stream"])
    cell = shown.locator("table.grid td.solved a").first
    target = (cell.get_attribute("href") or "")[1:]
    cell.click()
    shown.locator(f"[id='{target}']").wait_for(state="visible", timeout=5000)


def test_without_javascript_the_tables_are_read(opened: Open, pages: dict[str, Path]) -> None:
    shown = opened(pages["p2o"], script=False)
    shown.locator("#d-learning > summary").click()
    assert shown.locator("#d-learning tbody tr").count() == 9
    assert shown.locator("#d-learning tbody tr").first.is_visible()
    card = shown.locator("details.card", has_text="Trial at").first
    card.locator("> summary").click()
    run = read_run(pages["p2o"].parent)
    trials = [trial for one in run.candidates.values() for trial in one.trials]
    assert trials
    assert card.locator("td", has_text="what is ").first.is_visible()
    assert shown.locator("table.grid tbody tr").count() > 3


def test_series_differ_without_colours(opened: Open, pages: dict[str, Path]) -> None:
    """Series differ by dash pattern; they also have markers and a legend."""
    shown = opened(pages["stream"])
    dashes = shown.evaluate(
        """[...document.querySelector("svg").querySelectorAll("path[style*='series-']")]
           .filter((one) => one.style.fill === "none")
           .map((one) => [one.style.stroke, one.style.strokeDasharray])"""
    )
    by_colour = dict(map(tuple, dashes))
    assert len(by_colour) == 2
    assert len(set(by_colour.values())) == 2
    labels = shown.locator("svg").first.locator("text").all_text_contents()
    assert {"without a template", "under a template", "weight update", "mean reward"} <= set(labels)


def test_hostile_texts_do_nothing(opened: Open, tmp_path: Path) -> None:
    bad = "</pre></details><script>document.title='owned'</script><img src=x onerror='owned=1'>"
    bad += "<svg onload='owned=1'>\x00\u202e<style>*{display:none}</style>"
    joined = {"event": "template_joined", "template": bad, "tried": 1, "solved": 1}
    uses = {"event": "rewards", "step": 1, "uses": [[bad, bad, 2, 1.0], [bad, None, 1, 0.0]]}
    odd = {"event": bad, bad: bad}
    events = [checked("a", bad, parents=[bad]), checked(bad, bad), joined, uses, odd]
    weights = {"event": "instruction_weights", "step": 1, "weights": {bad: 1.0}}
    path = tmp_path / "report.html"
    path.write_text(page(write(tmp_path, [*events, weights])), "utf-8")
    shown = opened(path)
    assert "owned" not in shown.title()
    assert shown.evaluate("typeof owned") == "undefined"
    assert shown.locator("img").count() == 0
    assert shown.locator("h2").first.is_visible()
    assert bad[:20] in shown.locator("#candidates >> xpath=..").inner_text()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the address of a served run, and its journal."""
    folder = write(tmp_path / "run" / "coevo", [checked("aaaa", "the first")])
    with server(folder, 0) as serving:
        thread = Thread(target=serving.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{serving.server_address[1]}/", folder / "events.jsonl"
        finally:
            serving.shutdown()
            thread.join()


def test_the_live_page_shows_what_comes_and_keeps_open_what_is_open(
    live: tuple[str, Path], opened: Open
) -> None:
    address, journal = live
    shown = opened(address)
    shown.locator("#d-aaaa > summary").click()
    line = '{"event": "template_joined", "template": "aaaa", "tried": 3, "solved": 2}\n'
    with journal.open("a") as file:
        file.write(line)
    shown.locator("#c-aaaa", has_text="2 of 3 rollouts").wait_for(timeout=60_000)
    assert shown.locator("#c-aaaa").is_visible()


def test_the_live_page_answers_this_machine_alone(live: tuple[str, Path]) -> None:
    address, _ = live
    with urllib.request.urlopen(address) as answer:
        assert answer.headers["Cache-Control"] == "no-store"
    port = int(address.rstrip("/").rpartition(":")[2])
    for host, status in (
        (f"127.0.0.1:{port}", 200),
        (f"localhost:{port}", 200),
        (f"127.0.0.1:{port + 1}", 200),
        ("localhost", 200),
        (f"evil.example:{port}", 403),
        (f"localhost.evil.example:{port}", 403),
        ("", 403),
    ):
        connection = HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/state", headers={"Host": host})
        assert connection.getresponse().status == status, host
        connection.close()
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/../etc/passwd")
    assert connection.getresponse().status == 404
    connection.close()
