"""Check that a measured number stands once, where it is measured, and that the README repeats the results.

A measured number has a unit of time or memory, is a ratio, or an accuracy such as 0.53. Counts are not
looked at, nor code, nor tables that are rendered from the runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from helpers.documented import ROOT, pages

OWNERS: Final = {
    "README.md#what-it-costs",
    "docs/deviations.md#p2o",
    "docs/plugins/gepa/README.md#next-to-each-other",
    "docs/quickstart.md#the-demo",
    "docs/results-tables.md",
    "docs/results.md",
    "docs/search-agent.md#before-it-begins",
    "docs/search-agent.md#what-it-costs",
    "docs/testing.md#the-real-lucene",
    "docs/testing.md#the-real-vllm",
}
"""The pages and sections where measured numbers stand, with the command that measures them."""
LIMITS: Final = {
    "CHANGELOG.md": ("OpenRLHF 0.11",),
    "README.md": ("95 % intervals",),
    "docs/faults.md": ("up to 1 MB",),
    "docs/gpu-smoke.md": ("1 % of the way", "no case more than 20 %"),
    "docs/methods.md": ("reports up to 17 %", "At 80 %", "Over 64 MB"),
    "docs/openrlhf.md": ("below 0.12",),
    "docs/recipes.md": ("32 GB free together",),
    "docs/report.md": ("a 98 % interval",),
    "docs/search-agent.md": ("5 to 10 CPU seconds",),
    "docs/supply-chain.md": ("vLLM 0.32, 0.33", "0.31 runs"),
    "docs/testing.md": ("1 % of the way",),
}
"""By page: numbers in other sections, which are limits, settings, versions, or stand nowhere else."""
REPEATED: Final = {
    "Before training, {} are right": ("language", "before training", "task unstated"),
    "{} under the better of two right templates": (
        "language",
        "before training, under the better right template",
        "task unstated",
    ),
    "GRPO reached {}": ("language", "GRPO, twice the budget", "task unstated"),
    "led to {}": ("language", "instructions drawn, no search", "task unstated"),
    "three runs ended at {}": ("language", "stream, no right instruction", "task unstated"),
    "(minus GRPO: {})": ("language", "stream, no right instruction", "minus GRPO"),
    "SFT reached {}": ("language", "TRL's SFT on the solutions, no samples", "task unstated"),
    "{} per run of `stream` above": ("language", "stream", "calls"),
}
"""What the README repeats of docs/results.md: the table, the first row with this name, and the column."""
MADE: Final = ("docs/cli.md", "docs/licences.md", "docs/installed-versions.md")

_BLOCKS: Final = re.compile(
    r"^( *)```.*?^\1```|<!-- methods:.*?<!-- end -->|<!--.*?-->", re.DOTALL | re.MULTILINE
)
_INLINE: Final = re.compile(r"`[^`\n]*`|\]\([^)]*\)|https?://\S+")
_NUMBER: Final = r"\d+(?: \d{3})*(?:\.\d+)?"
_MEASURED: Final = re.compile(
    rf"(?<![\w.])(?:(?:{_NUMBER} ?(?:to|and|or|–) ?)?{_NUMBER} ?(?:%|×(?! ?\d)"
    r"|(?:ms|µs|s|CPU s|CPU seconds|seconds of CPU|minutes|hours|KB|MB|GB|times as)\b)"
    r"|0?\.\d{2,}(?!\w|\.\d))"
)


def sections(text: str) -> Iterator[tuple[set[str], str]]:
    """Yield the prose of each section in one line, with its anchor and that of the `##` around it."""
    around = ""
    for part in re.split(r"^(?=#+ )", _BLOCKS.sub("", text), flags=re.MULTILINE):
        title = part.partition("\n")[0]
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        around = anchor if title.startswith("## ") else around
        yield {anchor, around}, " ".join(_INLINE.sub("~", part).split())


def measured(page: str, text: str, *, outside: bool) -> list[str]:
    """Return the measured numbers of a page, or only those outside of the sections that own theirs."""
    left_out = [re.escape(_INLINE.sub("~", one)) for one in LIMITS.get(page, ())]
    if page == "README.md":
        repeated = [re.escape(_INLINE.sub("~", one)) for one in REPEATED]
        left_out += [one.replace(r"\{\}", r"[\d.]+") for one in repeated]
    known = re.compile("|".join(left_out) or "$^")
    return [
        number
        for anchors, prose in sections(text)
        if not outside or not OWNERS & {page, *(f"{page}#{one}" for one in anchors)}
        for number in _MEASURED.findall(known.sub("", prose))
    ]


TEXTS: Final = {
    name: path.read_text("utf-8")
    for path in pages()
    if (name := path.relative_to(ROOT).as_posix()) not in MADE
}


@pytest.mark.parametrize("page", TEXTS)
def test_a_page_links_to_numbers_that_it_does_not_measure(page: str) -> None:
    found = measured(page, TEXTS[page], outside=True)
    assert found == [], f"{page}: link to the page that measures it (see OWNERS)"


def doubles(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the exact numbers with a unit that stand on two pages, with these."""
    on: dict[str, set[str]] = {}
    for page, text in texts.items():
        for number in measured(page, text, outside=False):
            if re.search(r"\.\d+ |\d{3} [^%]", number):
                on.setdefault(number, set()).add(page)
    return {number: sorted(found) for number, found in on.items() if len(found) > 1}


def test_no_exact_number_with_a_unit_stands_on_two_pages() -> None:
    assert doubles(TEXTS) == {}


@pytest.mark.parametrize("phrase", REPEATED)
def test_what_the_readme_repeats_is_what_the_results_say(phrase: str) -> None:
    name, row, column = REPEATED[phrase]
    table = TEXTS["docs/results.md"].split(f"<!-- methods: {name} -->")[1].split("<!-- end -->")[0]
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()
    ]
    cells = dict(zip(head, next(cells for cells in rows if cells[0] == row), strict=True))
    told = cells[column] if column == "minus GRPO" else cells[column].split(" [")[0]
    assert phrase.format(told) in " ".join(TEXTS["README.md"].split())


def test_the_readmes_overhead_is_the_measured_one() -> None:
    tiny, real = (
        json.loads((ROOT / "benchmarks" / "results" / name).read_text("utf-8"))
        for name in ("overhead.json", "overhead_language.json")
    )
    assert (
        f"adds {tiny['ours_ms']:.0f} ms to a step of {tiny['rollouts_per_step']} rollouts "
        f"({tiny['ours_percent_of_bare_step']:.1f} % with a tiny policy), "
        f"{real['ours_ms']:.0f} ms to one of {real['rollouts_per_step']} "
        f"({real['ours_percent_of_bare_step']:.2f} % with SmolLM2)"
    ) in " ".join(TEXTS["README.md"].split())


def test_no_owner_and_no_limit_is_left_over() -> None:
    own = {
        owner
        for page, text in TEXTS.items()
        for anchors, prose in sections(text)
        if _MEASURED.search(prose)
        for owner in (page, *(f"{page}#{one}" for one in anchors))
    }
    assert own >= OWNERS
    for page, phrases in LIMITS.items():
        told = " ".join(TEXTS[page].split())
        assert [phrase for phrase in phrases if phrase not in told] == [], page


PLANTED = "took 2 371 CPU s", "ended at .77", "0.53, not 0.41", "2.4× as fast", "saves 12 %", "3 GB"
NO_NUMBERS = "after 600 seconds", "`0.53`", "TRL 1.10", "0.11.2", "tries it 3 times", "512 × 5 × 4"


def test_a_planted_number_is_found_and_what_is_none_is_not() -> None:
    for text in PLANTED:
        assert measured("docs/trl.md", f"# TRL\n\n## Costs\n\nIt {text}.\n", outside=True), text
        assert not measured(
            "docs/search-agent.md", f"## What it costs\n\n### A\n\n{text}\n", outside=True
        )
    for text in NO_NUMBERS:
        assert not measured("docs/trl.md", f"# TRL\n\nIt {text}.\n", outside=True), text
    twice = {"a.md": "It took\n2.6 s.", "b.md": "In 2.6 s, or 3 s.", "c.md": "```\n2.6 s\n```\n3 s"}
    assert doubles(twice) == {"2.6 s": ["a.md", "b.md"]}
