"""Check that the documentation pages agree with the run files."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import balanced
import language_model
import page
import pytest
import tabular
import transformer
from language_page import COSTS, across_families
from store import KEY, ResultsError, Store, digest
from tables import shown

from prompt_coevo.algorithms.stream import _LIKELY, _LIKELY_FROM
from prompt_coevo.algorithms.stream.comparison import LEAST_GROUPS
from prompt_coevo.demo.results import area
from prompt_coevo.demo.unnamed.arms import MEMORY_IN_FLOAT32, ROLLOUTS_PER_STEP
from prompt_coevo.demo.unnamed.tasks import HARD, Questions
from prompt_coevo.demo.unnamed.teachers import teacher

ROOT = Path(__file__).parents[3]
MAIN = ("grpo", "stream")
WORLDS = ("capitals", "opposites")
TIERS = {
    "tabular": tabular,
    "transformer": transformer,
    "balanced": balanced,
    "language_model": language_model,
}
FILES = {**{name: (name, name) for name in TIERS}, "search": ("transformer_search", "transformer")}
"""By the name of a store: its file and its tier."""


@pytest.fixture(scope="module")
def blocks() -> Any:
    replayed = json.loads((ROOT / "benchmarks" / "methods" / "replayed.json").read_text())
    stores = {
        name: Store(
            ROOT / "benchmarks" / "results" / f"methods_{file}.jsonl",
            tier,
            {arm: digest(values) for arm, values in TIERS[tier].frozen().items()},
            replayed.get(tier),
        )
        for name, (file, tier) in FILES.items()
    }
    return page.blocks(stores)


@pytest.mark.parametrize("name", page.PAGES)
def test_a_pages_tables_are_those_of_the_runs(blocks: Any, name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert page.filled(text, blocks, name) == text


SAID = {
    ("stream", "GRPO", "task unstated", "language model"): "established",
    ("stream", "GRPO", "task unstated, mean over the run", "language model"): "established",
    ("stream", "GRPO", "task stated", "language model"): "not established",
    ("stream", "GRPO", "task stated, mean over the run", "language model"): "not established",
    (
        "stream",
        "instructions drawn, no search",
        "task unstated",
        "language model",
    ): "not established",
    ("stream, blind teacher", "GRPO", "task unstated", "language model"): "not established",
    ("stream", "GRPO", "hard", "small transformer"): "established",
    ("stream", "GRPO", "medium", "small transformer"): "not established",
    ("stream", "GRPO", "medium, mean over the run", "small transformer"): "**the other way**",
    ("stream", "GRPO", "easy", "small transformer"): "not established",
    ("stream", "GRPO", "hard", "small transformer, fewer hard questions"): "established",
    (
        *("stream", "GRPO", "medium, mean over the run"),
        "small transformer, fewer hard questions",
    ): "not established",
    ("stream", "P2O", "hard", "small transformer, earlier `stream`"): "established",
    ("P2O", "GRPO", "medium", "small transformer, earlier `stream`"): "**the other way**",
    (
        *("stream", "hints from the gold answer", "hard"),
        "small transformer, earlier `stream`",
    ): "not established",
    ("stream", "P2O", "hard", "table world C, earlier `stream`"): "established",
    (
        *("P2O", "search on the frozen policy, then training", "hard"),
        "table world C, earlier `stream`",
    ): "**the other way**",
    ("INSPO", "a static instruction", "all", "table world C, earlier `stream`"): "established",
    ("INSPO", "INSPO, after training", "all", "table world C, earlier `stream`"): "not established",
    (
        *("stream", "hints from the answers, no search", "hard"),
        "table world E, earlier `stream`",
    ): "**the other way**",
}
"""What the first sentences of docs/results.md say."""


def test_the_first_sentences_of_the_results_are_the_verdicts(blocks: Any) -> None:
    rows = _rows(blocks["verdicts"]())
    found = {tuple(cells[:4]): cells[-1] for cells in rows}
    assert {key: found[key] for key in SAID} == SAID
    differences = {(cells[0], cells[1], cells[2]): cells[5] for cells in rows}
    text = " ".join((ROOT / "docs" / "results.md").read_text("utf-8").split())
    ends = {cells[0]: cells[2].split(" [")[0] for cells in _rows(blocks["language"]())}
    assert f"({ends['stream']} right, GRPO {ends['GRPO']})" in text
    over = differences["stream", "GRPO", "task stated, mean over the run"]
    assert f"no difference is established, at the end or over the run ({over})" in text
    assert differences["P2O", "GRPO", "task unstated"].startswith("-")
    assert differences["stream, no right instruction", "GRPO", "task unstated"].startswith("-")


def test_what_the_results_say_of_other_tables(blocks: Any) -> None:
    text = " ".join((ROOT / "docs" / "results.md").read_text("utf-8").split())
    stream, twice = (_by_family(arm) for arm in ("stream", "grpo-twice"))
    ahead = {name: stream[name] - twice[name] for name in HARD}
    most = ahead.pop("opposite of a word")
    assert most > sum(ahead.values())
    (far,), (near,) = (
        [run["curve"]["hard"][-1] for run in _runs(arm)[:1]] for arm in ("stream", "grpo-twice")
    )
    told = f"GRPO ended at {_short(near)} on the language model's questions"
    assert f"{told}, `stream` with the same seed at {_short(far)}." in text
    told = "Most of that is opposites ({}, `stream` {}); in each other family the difference is at most {}"
    opposites = (one["opposite of a word"] for one in (twice, stream))
    assert told.format(*map(_short, (*opposites, max(ahead.values())))) in text
    probed = [float(cells[3]) for cells in _rows(blocks["language-probe"]())[: len(HARD)]]
    assert f"answers {sum(probed) / len(HARD):.2f}".replace(" 0.", " .") in text
    assert 'is "cannot be told": 88 questions are too few for its comparison group' in text
    assert len(Questions.unnamed(0).training) == 88 < LEAST_GROUPS
    compared = {
        (*cells[:2],): cells[5]
        for cells in _rows(blocks["verdicts"]())
        if cells[2:4] == ["task unstated", "language model"]
    }
    below = compared["stream", "stream, blind teacher"].replace("+", "", 1)
    above = compared["stream, blind teacher", "GRPO"]
    assert f"by {below}. That it is above GRPO ({above}) is not established." in text
    drawn = _runs("drawn")
    like = {(run["seed"], run["draw"]) for run in drawn}
    searched = [run for run in _runs("stream") if (run["seed"], run["draw"]) in like]
    ends, means = (
        [_short(statistics.fmean(of(run) for run in runs)) for runs in (drawn, searched)]
        for of in (
            lambda run: run["curve"]["hard"][-1],
            lambda run: area(run["spent"], run["curve"]["hard"], run["budget"]),
        )
    )
    difference = compared["stream", "instructions drawn, no search"]
    assert f"to {ends[0]}, `stream` with the same seeds to {ends[1]} ({difference}):" in text
    assert f"no difference is established. Over the run: {means[0]} and {means[1]}." in text
    assert len(drawn) == len(searched) == 3
    untold = statistics.fmean(run["curve"]["hard"][-1] for run in _runs("blind"))
    assert f"which is not told, it ended at {_short(untold)}." in text
    share = f"{1 - (4 / 6) ** 7:.0%}".replace("%", " %")
    assert f"seven draws have a right one among them in {share} of cases" in text
    blind = teacher("blind", 0)
    assert len({blind("") for _ in range(2000)}) == 2 * 21
    assert "of whose instructions one in 21 is right for a question" in text
    assert (
        "Of the 32 answers to questions with a stated task `stream` has as many right as GRPO in each"
        in text
    )
    right = {tuple(cells[:2]): cells[4] for cells in _rows(blocks["language-trainers"]())}
    for trainer in ("VeRL", "OpenRLHF", "TRL"):
        answers = [round(float(right[trainer, arm]) * 32) for arm in ("stream", "GRPO")]
        assert answers[0] == answers[1]
    assert "seven of its families" in text
    few, many = (_rows(blocks[f"language-probe-gym{more}"]()) for more in ("", "-64"))
    assert [cells[0] for cells in few] == [cells[0] for cells in many]
    assert len(many) == 7
    assert "five of the seven have none right bare (not time_intervals and spell_backward)" in text
    never = [cells for cells in many if float(cells[1]) == 0 == float(cells[2])]
    found = {cells[0] for cells in many} - {cells[0] for cells in never}
    assert found == {"time_intervals", "spell_backward"}
    assert "one to three of 48 under the best of the four templates" in text
    under = [float(cells[4]) for cells in never]
    assert [min(under), max(under)] == pytest.approx([1 / 48, 3 / 48], abs=0.001)
    again = json.loads((ROOT / "benchmarks/results/language_probe_gym_64.json").read_text())
    assert again["dtype"] == "torch.float32"
    tags = "Write the answer in tags, like <answer>7</answer>."
    (syllogism,) = (one for one in again["families"] if one["family"] == "syllogism")
    assert syllogism[tags]["whole"] == [0, 0]
    assert ["syllogism", "0.17"] in [[cells[0], cells[3]] for cells in few]
    assert "In each run `stream` learns all six forms; the worst, code, ended once at .58" in text
    assert (
        "GRPO learns two in two of its runs (headline both times, with poem or numbered list)"
        in text
    )
    forms = {"grpo": list[dict[str, float]](), "stream": list[dict[str, float]]()}
    for run in (one for one in _read("language_rules.jsonl") if "arm" in one):
        ends = {kind: curve[-1] for kind, curve in run["curve"].items() if "asked" not in kind}
        forms[run["arm"]].append({kind: ends[kind] for kind in ends.keys() - {"hard"}})
    learned = [sorted(kind for kind, end in ends.items() if end > 0.3) for ends in forms["grpo"]]
    assert learned == [["headline", "poem"], [], ["headline", "numbered list"]]
    never = ("code", "letter", "story")
    assert not any(ends[kind] for ends in forms["grpo"] for kind in never)
    worst = [min(ends, key=lambda kind: ends[kind]) for ends in forms["stream"]]
    lowest = [ends[kind] for ends, kind in zip(forms["stream"], worst, strict=True)]
    assert (worst[2], round(min(lowest), 2), min(lowest)) == ("code", 0.58, lowest[2])
    verified = {cells[0]: cells[4:] for cells in _rows(blocks["tabular-instructions"]())}
    assert "verification above none, except in E" in text
    signs = [_high(cell) < 0 for cell in verified["INSPO, no verification"]]
    assert signs == [False, False, True]
    hints = {cells[0]: cells[4:] for cells in _rows(blocks["tabular"]())}
    assert "end above `stream` in worlds C and E" in text
    assert all(_mean(cell) > 0 for cell in hints["hints from the answers, no search"][1:])


def test_what_the_results_say_of_families() -> None:
    text = " ".join((ROOT / "docs" / "results.md").read_text("utf-8").split())
    runs = [run for run in _lines() if run.get("world") == "unnamed"]
    difference = across_families(runs, "stream", "grpo")
    assert difference is not None
    assert (
        f"Resampled by family, not by question, `stream` minus GRPO is {shown(difference, True)}"
        in text
    )
    vegetables = {arm: [_of_vegetables(run) for run in runs if run["arm"] == arm] for arm in MAIN}
    assert "in two of its five runs it gets less than .4 of the vegetables right" in text
    assert [len(vegetables["stream"]), sum(share < 0.4 for share in vegetables["stream"])] == [5, 2]
    assert f"GRPO's lowest is {min(vegetables['grpo']):.2f}".replace(" 0.", " .") in text


def _short(share: float) -> str:
    return f"{share:.2f}".lstrip("0")


def _of_vegetables(run: Any) -> float:
    """Return the share of right answers at the end."""
    answers = {task.question: task.answer for task in Questions.unnamed(run["draw"]).held_out}
    return statistics.fmean(
        at[-1] for name, (_, *at) in run["words"].items() if answers[name] == "vegetable"
    )


def test_what_the_results_say_of_solutions_and_other_ways(blocks: Any) -> None:
    text = " ".join((ROOT / "docs" / "results.md").read_text("utf-8").split())
    language = _rows(blocks["language"]())
    right = {cells[0]: _mean(cells[2]) for cells in language}
    calls = {cells[0]: cells[-2] for cells in language}
    readme = (ROOT / "README.md").read_text("utf-8")
    assert (
        f"{calls['stream']} per run of `stream` above (P2O: {calls['P2O']}), on average" in readme
    )
    cpu = {cells[0]: cells[-1].replace(" ", "") for cells in language}
    hints, sdft, sft = (
        "hints, half of each solution",
        *(
            f"TRL's {name}"
            for name in ("SDFT on the solutions", "SFT on the solutions, no samples")
        ),
    )
    alone, trained = (
        f".{100 * right[name]:.0f}"
        for name in ("before training, under the better right template", "stream")
    )
    assert (
        f"the better right templates alone are worth {alone}, `stream` {trained} without them"
        in text
    )
    assert "about as far as GRPO does without" in text
    assert abs(right["before training, under the better right template"] - right["GRPO"]) < 0.02
    assert "Of the methods with solutions only TRL's SFT is above `stream`" in text
    assert max(right[hints], right[sdft]) < right["stream"] < right[sft]
    assert "a tenth of the CPU time" in text
    assert float(cpu[sft]) < 0.12 * float(cpu["stream"])
    assert "`hints` is between GRPO and `stream` there (three runs)" in text
    assert len(_runs("hints")) == 3
    assert right["GRPO"] < right[hints]
    emulated = [run for run in _of_all_questions() if run.get("emulated")]
    assert "leave out the runs that emulate bfloat16 (`emulated` in the file of results)" in text
    assert "which took two to three times as long" in text
    assert "GRPO's runs, which they are compared with, are all the hardware's" in text
    assert not [run for run in emulated if run["arm"] == "grpo"]
    slower = [
        run["cpu_seconds"] / statistics.fmean(others)
        for run in emulated
        if (others := [one["cpu_seconds"] for one in _runs(run["arm"]) if one not in emulated])
    ]
    assert [round(min(slower)), round(max(slower))] == [2, 3]
    took = {
        in_hardware: [
            run["cpu_seconds"] / (run["training"] + run["outside"]) * ROLLOUTS_PER_STEP
            for run in _of_all_questions()
            if run.get("training")
            and (run.get("bf16", True) and not run.get("emulated")) == in_hardware
        ]
        for in_hardware in (True, False)
    }
    ranges = {hard: f"{min(of):.0f} to {max(of):.0f} CPU seconds" for hard, of in took.items()}
    assert f"evaluation aside, took {ranges[True]} of shared cores" in text
    most = max(run.get("peak_bytes", 0) for run in _lines() if run.get("world") == "unnamed")
    rest = f"{ranges[False]}, and a run up to {most / 1e9:.1f} GB of memory"
    assert f"in float32 or bfloat16 is emulated, {rest}" in text
    assert most < MEMORY_IN_FLOAT32
    file = ROOT / "benchmarks" / "results" / "openrlhf_language.json"
    (filtered,) = (one for one in json.loads(file.read_text())["runs"] if one.get("mode"))
    assert f"The same rollouts then make {filtered['steps']} steps, not 88" in text


def test_what_the_results_say_of_the_policy_as_its_own_teacher() -> None:
    text = " ".join((ROOT / "docs" / "results.md").read_text("utf-8").split())
    (run,) = (line for line in _read("language_self.jsonl") if "arm" in line)
    steps = [step["coevo/templated_fraction"] for step in run["steps"]]
    assert "a program in all runs here but one" in text
    assert f"none of its {run['calls']} replies in {len(steps)} steps, at most 160" in text
    assert f"--arms {run['arm']} --seeds 1 --rollouts {run['budget']} --json" in text
    assert not any(steps)
    assert not run["cracked"]
    assert not run["bf16"]


def test_what_the_results_say_of_an_instruction_for_one_task(blocks: Any) -> None:
    text = " ".join((ROOT / "docs" / "results.md").read_text("utf-8").split())
    one, capitals = (
        {cells[0]: cells for cells in _rows(blocks[f"language-{world}"]())}
        for world in ("opposites", "capitals")
    )
    assert _mean(capitals["INSPO"][2]) < _mean(capitals["a static instruction"][2])
    assert capitals["INSPO"][5] == "1 280"
    found = [float(one[name][2]) for name in ("INSPO", "INSPO, before training")]
    assert max(found) < float(one["a static instruction"][2])
    assert max(float(cells[4]) for cells in one.values() if cells[4] != "–") < 0.15
    assert float(one["GRPO, no instruction"][2]) < 0.05
    assert "but capitals as well as under the static one (.85 on average)" in text
    alone, static_end = (
        _mean(capitals[name][2]) for name in ("GRPO, no instruction", "a static instruction")
    )
    assert f"{alone:.2f}" == "0.85"
    assert alone == pytest.approx(static_end, abs=0.01)
    assert "GRPO learned one of the two tasks as well without any" in text
    after = [int(one["INSPO, after training"][at].replace(" ", "")) for at in (5, 6)]
    assert f"left {100 * (1408 - sum(after)) / 1408:.0f} % of its budget" in text
    assert one["INSPO, after training"][-1] == one["a static instruction"][-1]
    reworded = one["INSPO, paraphrase"]
    assert f'"{reworded[-1]}" stays near zero' in text
    assert float(reworded[2]) < 0.1
    static, inspo, before = (
        {(run["world"], run["seed"]): run for world in WORLDS for run in _runs(f"{world}-{kind}")}
        for kind in ("static", "inspo", "before")
    )
    assert "In two of these three runs INSPO ended below its first instruction" in text
    assert "in two of three runs" in text
    assert [_end(inspo[key]) < _end(static[key]) for key in sorted(inspo)] == [True, False, True]
    late, early = (inspo["capitals", seed] for seed in (0, 1))
    ends = [f".{100 * _end(run):.0f}" for run in (early, static["capitals", 1])]
    assert f"ended at {ends[0]} (the static instruction at {ends[1]})" in text
    ends = [f".{100 * _end(run):.0f}" for run in (late, static["capitals", 0])]
    assert f"ended at {ends[0]} (the static instruction at {ends[1]})" in text
    # The step that each instruction was first drawn in, and about which share of the rollouts it had.
    assert "a right instruction joined after 10 of 40 steps" in text
    assert early["population"][early["instruction"]][0] == 11
    assert early["training"] == late["training"] == 40 * 32
    assert "three wrong ones joined first and took a third of the rollouts" in text
    assert "a right one came after 30 steps" in text
    assert late["population"][late["instruction"]][0] == 31
    wrong = [share for step, share in late["population"].values() if 1 < step < 31]
    assert len(wrong) == 3
    assert sum(wrong) == pytest.approx(1 / 3, abs=0.03)
    assert "A right instruction found before training is ahead early" in text
    assert all(_area(before[key]) > _area(static[key]) for key in before)
    assert "at the end no difference is shown. With opposites" in text
    assert {_end(before[key]) > _end(static[key]) for key in before} == {True, False}
    needed = [_bare(run) for arm in (inspo, before) for run in arm.values()]
    assert "without it at most one in eight is right" in text
    assert max(needed) == 1 / 8
    kept = [f"{_bare(static['capitals', seed]):.2f}"[1:] for seed in (1, 0)]
    assert f"one run of capitals got {kept[0]} without it, the other {kept[1]}" in text


def test_the_time_of_runs_that_emulated_bfloat16_is_not_taken_with_the_others() -> None:
    runs = [{"cpu_seconds": 10, "emulated": False}, {"cpu_seconds": 20}]
    slow = {"cpu_seconds": 90, "emulated": True}
    seconds = COSTS["CPU seconds"]
    assert seconds([*runs, slow]) == "15"
    assert seconds([slow]) == "–"


def test_the_forecast_of_calls_is_what_the_runs_took() -> None:
    assert "took a third of this to 2.6 times as many" in _LIKELY_FROM
    assert "with a teacher that is hardly ever right six times" in _LIKELY_FROM
    files = {"tabular": 512, "transformer": 512, "balanced": 512, "language_model": 88}
    runs = [
        (at_least, run)
        for name, at_least in files.items()
        for run in _read(f"methods_{name}.jsonl")
    ]
    runs += [(88, run) for run in _read("language_rules.jsonl")]
    runs += [(100, run) for run in _read("language_gym.jsonl")]
    times = {
        arm: [run["calls"] / min(_LIKELY, asked) for asked, run in runs if run.get("arm") == arm]
        for arm in ("stream", "stream, random teacher")
    }
    assert len(times["stream"]) == 68
    assert 1 / 3 < min(times["stream"]) < max(times["stream"]) < 2.65
    assert statistics.fmean(times["stream, random teacher"]) == pytest.approx(6, abs=0.1)


def _of_all_questions() -> list[dict[str, Any]]:
    """Return the runs with a language model, with other questions than the published ones, too."""
    return [*_lines(), *_read("language_rules.jsonl"), *_read("language_gym.jsonl")]


def _lines() -> list[dict[str, Any]]:
    return _read("methods_language_model.jsonl")


def _read(name: str) -> list[dict[str, Any]]:
    """Return the lines of a file: of what it is, of machines and of runs."""
    text = (ROOT / "benchmarks" / "results" / name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _runs(arm: str) -> list[dict[str, Any]]:
    return [run for run in _lines() if run.get("arm") == arm]


def _end(run: dict[str, Any]) -> float:
    end: float = run["curve"]["hard"][-1]
    return end


def _area(run: dict[str, Any]) -> float:
    return area(run["spent"], run["curve"]["hard"], run["budget"])


def _bare(run: dict[str, Any]) -> float:
    right, asked = run["last"]["without instruction"]
    return float(right / asked)


def test_what_the_results_say_of_a_teacher_that_is_never_right() -> None:
    ends = {
        (run["arm"], run["seed"]): f"{run['curve']['hard'][-1]:.2f}".lstrip("0")
        for run in _lines()
        if run.get("draw") == 0
    }
    seeds = sorted(seed for arm, seed in ends if arm == "random")
    assert seeds == [0, 1, 2]
    wrong, bare = ([ends[arm, seed] for seed in seeds] for arm in ("random", "grpo"))
    said = "ended at {}, {} and {}, GRPO with the same seeds at {}, {} and {}".format(*wrong, *bare)
    assert said in " ".join((ROOT / "docs" / "results.md").read_text("utf-8").split())
    assert "three runs ended at" in (ROOT / "README.md").read_text("utf-8")


def _by_family(arm: str) -> dict[str, float]:
    """Return the last accuracies of the first run of an arm."""
    wanted = ("unnamed", arm, 0, 0)
    run = next(run for run in _lines() if tuple(run.get(part) for part in KEY) == wanted)
    return {family: points[-1] for family, points in run["curve"].items()}


def _rows(table: str) -> list[list[str]]:
    rows = [line for line in table.splitlines() if line.startswith("|")]
    return [row.strip("| ").split(" | ") for row in rows[2:]]


def _mean(cell: str) -> float:
    return float(cell.split(" [")[0])


def _high(cell: str) -> float:
    return float(cell.rstrip("]").split(", ")[1])


def test_a_table_that_nobody_knows_is_refused(blocks: Any) -> None:
    with pytest.raises(ResultsError, match="x.md: there is no table 'nope'; known: headline,"):
        page.filled("<!-- methods: nope -->\n<!-- end -->", blocks, "x.md")


@pytest.mark.parametrize("name", TIERS)
def test_the_settings_are_the_frozen_ones(name: str) -> None:
    frozen = json.loads((ROOT / "benchmarks" / "methods" / "frozen.json").read_text())
    assert frozen[name] == {arm: digest(values) for arm, values in TIERS[name].frozen().items()}


def test_the_pictures_that_pages_show_are_drawn() -> None:
    shown = {
        found
        for name in page.PAGES
        for found in re.findall(r"\((?:results/)(\S+\.svg)\)", (ROOT / name).read_text("utf-8"))
    }
    assert shown
    assert all((ROOT / "docs" / "results" / picture).exists() for picture in shown)
