"""Check what a tracker receives, and that none of it is interpreted as markup."""

from __future__ import annotations

from prompt_coevo.adapters.common.trackers.lineage import Row
from prompt_coevo.adapters.common.trackers.tables import Tables, escaped, fenced

HOSTILE = "# big\n```\n<script>alert(1)</script> | [x](http://evil)\x1b[31m\u202e ````"


def row(name: str, fate: str = "in use", text: str = "a hint") -> Row:
    return Row(name, "template", text, "", 3, fate, "because | of <b>", "weight 0.5")


def test_what_is_in_use_comes_first_and_the_best_at_the_top() -> None:
    rows = [row("a"), row("old", "dropped"), row("b"), row("new", "on trial")]
    tables = Tables.of(rows, "b")
    assert [cells[0] for cells in tables.lineage] == ["b", "a", "new", "old"]
    assert tables.in_use == [
        ["template", "best", "b", "weight 0.5", "a hint"],
        ["template", "", "a", "weight 0.5", "a hint"],
    ]


def test_a_long_run_is_cut_and_says_so() -> None:
    rows = [row(str(number), "dropped") for number in range(1_000)]
    tables = Tables.of([*rows, row("used")], None)
    assert len(tables.lineage) == 300
    assert tables.lineage[0][0] == "used"
    assert tables.lineage[1][0] == "999"
    assert "701 earlier candidates are left out" in tables.lineage_markdown()


def test_long_texts_are_cut() -> None:
    tables = Tables.of([row("a", text="x" * 5_000)], None)
    assert str(tables.lineage[0][-1]).endswith("x [4800 characters more]")
    assert str(tables.in_use[0][-1]).endswith("x [1000 characters more]")


def test_a_hostile_text_stays_a_text() -> None:
    tables = Tables.of([row("a", text=HOSTILE)], None)
    page = tables.in_use_markdown()
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "⟨U+001B⟩[31m⟨U+202E⟩" in page
    opening = page.split("\n\n", 1)[1].split("\n")[0]
    assert opening == "`````"  # longer than any run within
    table = tables.lineage_markdown()
    assert "<script>" not in table
    assert all(line.replace("\\|", "").count("|") == 9 for line in table.strip().split("\n"))


def test_the_pieces() -> None:
    assert fenced("a ``` b") == "````\na ``` b\n````"
    assert escaped("a\nb *c* <d>") == "a b \\*c\\* &lt;d&gt;"
