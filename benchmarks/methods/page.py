"""Fill the tables of the documentation from the files of runs, and draw the pictures.

A table stands in a page between `<!-- methods: NAME -->` and `<!-- end -->`; what is between is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import language_model
import language_page
import pictures
import probes
import searches
import tabular
import transformer
import verdicts
from store import ResultsError, Run, Store, key_of
from tables import (
    AREA,
    Cell,
    Claim,
    accuracy,
    claims,
    count,
    less,
    number,
    of_arm,
    share,
    table,
)

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = (
    "README.md",
    "docs/results.md",
    "docs/results-tables.md",
)
_BLOCK: Final = re.compile(r"(<!-- methods: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)

COSTS: Final[Mapping[str, Cell]] = {
    "training": number("training"),
    "other rollouts": number("outside"),
    "batches waited for": number("barriers"),
    "calls": number("calls"),
    "tokens": number("tokens"),
    "CPU seconds": number("cpu_seconds"),
}
BY_KIND: Final[Mapping[str, Cell]] = {
    "hard": accuracy("hard"),
    "medium": accuracy("medium"),
    "easy": accuracy("easy"),
    "hard, area": accuracy("hard", AREA),
}
HELD_OUT: Final[Mapping[str, Cell]] = {
    "longer lists": share("longer"),
    "explained in training": share("explained"),
    "never explained": share("not explained"),
    "templated questions": share("templated"),
    "never templated": share("never templated"),
    "under its templates": share("under templates"),
}
INSPO: Final = (
    *("static", "inspo", "inspo-before", "inspo-after", "inspo-oldest-leave", "inspo-constant"),
    *("inspo-no-verify", "inspo-paraphrase", "inspo-history"),
)
CONTROLS: Final = ("grpo", "grpo-twice", "random-hints", *pictures.TEACHERS, "gold-hints")
VARIANTS: Final = (
    *("stream", "kl", "grpo-kl", "success-weight", "stream-same-template"),
    "no-distillation",
    *("p2o", "p2o-bare", "same-template"),
)
FROZEN: Final = ("frozen", "frozen-instruction", "frozen-first", "stream", "inspo")
OTHERS: Final = ("grpo", "sdpo", "sdft", "espl", "gold-hints", "stream", "inspo", "both")

MAIN: Final = (
    *("grpo", "grpo, 2 x", "p2o", "p2o, bare", "stream", "stream, one template"),
    *("stream, no distillation", "stream, exact teacher", "stream, random teacher"),
    *("random hints", "true hints", "search, then train"),
)
INSTRUCTIONS: Final = (
    *("static", "inspo", "inspo, before", "inspo, after", "inspo, oldest leave", "inspo, constant"),
    *("inspo, no verify", "inspo, paraphrase", "inspo, history", "both"),
)

HEADLINE_CLAIMS: Final = (
    Claim("stream", "grpo"),
    Claim("p2o", "grpo"),
    Claim("stream", "p2o"),
    Claim("stream", "p2o", column=AREA),
    Claim("grpo", "stream", "medium"),
    Claim("grpo", "stream", "medium", AREA),
    Claim("grpo", "p2o", "medium"),
    Claim("grpo", "stream", "easy"),
    Claim("grpo", "p2o", "easy"),
)
BESIDE_GRPO: Final = (
    Claim("stream", "grpo"),
    Claim("stream", "grpo", column=AREA),
    Claim("stream", "grpo", "medium", by=-0.03),
    Claim("stream", "grpo", "medium", AREA, by=-0.03),
    Claim("stream", "grpo", "easy", by=-0.03),
    Claim("stream", "grpo", "easy", AREA, by=-0.03),
)
"""The stream adds hard words and loses hardly any others."""

CONTROL_CLAIMS: Final = (
    Claim("stream", "grpo-twice"),
    Claim("stream", "random-hints"),
    Claim("stream", "random-teacher"),
    Claim("stream", "filler-teacher"),
    Claim("exact-teacher", "stream", column=AREA),
    Claim("stream", "poor-teacher", column=AREA),
    Claim("poor-teacher", "random-teacher", column=AREA),
    Claim("gold-hints", "stream", column=AREA),
)
VARIANT_CLAIMS: Final = (
    Claim("stream", "stream-same-template"),
    Claim("stream", "no-distillation"),
    Claim("success-weight", "stream", column=AREA),
    Claim("kl", "stream", column=AREA),
    Claim("kl", "stream", "easy", AREA),
    Claim("kl", "stream", "medium", AREA),
    Claim("grpo-kl", "kl", "easy"),
    Claim("grpo-kl", "kl", "medium"),
    Claim("p2o-bare", "p2o"),
    Claim("p2o", "same-template"),
    Claim("stream", "frozen-first"),
    Claim("stream", "frozen-first", column=AREA),
)
INSPO_CLAIMS: Final = tuple(Claim("inspo", other, "all") for other in INSPO if other != "inspo")
"""The orderings of the paper's Table 1 and Figure 3, as far as they are about INSPO itself."""


def write(stores: Mapping[str, Store]) -> None:
    """Fill all pages and draw all pictures. Raises ResultsError for an unknown table."""
    known = blocks(stores)
    for name in PAGES:
        page = ROOT / name
        page.write_text(filled(page.read_text("utf-8"), known, name), "utf-8")
    pictures.draw({name: store.runs for name, store in stores.items()}, ROOT / "docs" / "results")


def filled(text: str, known: Mapping[str, Callable[[], str]], name: str) -> str:
    """Return the page with new tables."""

    def made(found: re.Match[str]) -> str:
        if found[2] not in known:
            raise ResultsError(f"{name}: there is no table {found[2]!r}; known: {', '.join(known)}")
        return f"{found[1]}\n{known[found[2]]()}\n\n{found[3]}"

    return _BLOCK.sub(made, text)


def blocks(stores: Mapping[str, Store]) -> dict[str, Callable[[], str]]:
    """Return all tables, by name."""
    tabular_runs, runs = stores["tabular"].runs, stores["transformer"].runs
    _check_bases(runs)
    names = transformer.labels()
    headline = [run for run in runs if run["arm"] in transformer.HEADLINE]
    few = [run for run in runs if run["draw"] == 0 and run["seed"] < 3]
    grpo = of_arm(runs, "grpo")
    few_grpo = of_arm(few, "grpo")
    start = {"runs": count}
    against = {"hard, minus GRPO": less(grpo), "area, minus GRPO": less(grpo, column=AREA)}
    few_against = {"hard, minus GRPO": less(few_grpo)}
    of_all = {
        "all words": accuracy("all"),
        "hard": accuracy("hard"),
        "all, area": accuracy("all", AREA),
        "hard, without the instruction": share("without instruction"),
    }
    made: dict[str, Callable[[], str]] = {
        "headline": lambda: table(
            headline, transformer.HEADLINE, names, {**start, **BY_KIND, **against}
        ),
        "headline-costs": lambda: table(headline, transformer.HEADLINE, names, COSTS),
        "headline-claims": lambda: claims(headline, HEADLINE_CLAIMS, names),
        "held-out": lambda: table(headline, transformer.HEADLINE, names, HELD_OUT),
        "controls": lambda: table(
            few, CONTROLS, names, {**start, **BY_KIND, **few_against, "calls": number("calls")}
        ),
        "controls-claims": lambda: claims(few, CONTROL_CLAIMS, names),
        "variants": lambda: table(few, VARIANTS, names, {**start, **BY_KIND, **COSTS}),
        "variants-claims": lambda: claims(few, VARIANT_CLAIMS, names),
        "frozen": lambda: table(
            few,
            FROZEN,
            names,
            {
                **start,
                "hard": accuracy("hard"),
                "all words": accuracy("all"),
                "hard, under its templates": share("under templates"),
                "hard, without the instruction": share("without instruction"),
                **COSTS,
            },
        ),
        "inspo": lambda: table(few, INSPO, names, {**start, **of_all, **COSTS}),
        "inspo-claims": lambda: claims(few, INSPO_CLAIMS, names),
        "others": lambda: table(
            few,
            OTHERS,
            names,
            {**start, **BY_KIND, "without the instruction": share("without instruction"), **COSTS},
        ),
        "machines": lambda: _machines(stores),
        "status": lambda: _status(stores),
    }
    made |= language_page.blocks(stores["language_model"].runs)
    made |= verdicts.blocks({name: store.runs for name, store in stores.items()})
    made |= probes.blocks()
    made |= searches.blocks()
    for name in ("search", "balanced"):
        made |= _beside_grpo(name, stores[name].runs)
    made |= _tabular_summaries(tabular_runs)
    for world in tabular.WORLDS_USED:
        made |= _tabular_blocks(world, of_world(tabular_runs, world))
    return made


def _beside_grpo(name: str, runs: Sequence[Run]) -> dict[str, Callable[[], str]]:
    """Compare the stream with GRPO alone, at the same seeds."""
    names, arms = transformer.labels(), ("grpo", "stream")
    columns = {
        "runs": count,
        **BY_KIND,
        "medium, area": accuracy("medium", AREA),
        "easy, area": accuracy("easy", AREA),
        "calls": number("calls"),
    }
    few = [run for run in runs if run["draw"] == 0 and run["seed"] < 3]
    return {
        name: lambda: table(runs, arms, names, columns),
        f"{name}-teachers": lambda: table(few, ("grpo", *pictures.TEACHERS), names, columns),
        f"{name}-claims": lambda: claims(runs, BESIDE_GRPO, names),
    }


def _check_bases(runs: Sequence[Run]) -> None:
    """Raise ResultsError if runs of one draw began with different policies."""
    for draw in {run["draw"] for run in runs}:
        bases = sorted({run["base"] for run in runs if run["draw"] == draw})
        if len(bases) > 1:
            raise ResultsError(
                f"the runs of draw {draw} began with different base policies ({', '.join(bases)}); "
                "delete those of all but one"
            )


def of_world(runs: Sequence[Run], world: str) -> list[Run]:
    return [run for run in runs if run["world"] == world]


def _tabular_summaries(runs: Sequence[Run]) -> dict[str, Callable[[], str]]:
    """Compare the main arms with the stream, and the instructions with INSPO's, in all worlds at once."""
    names = tabular.labels()

    def made(arms: Sequence[str], best: str, kind: str) -> str:
        columns: dict[str, Cell] = {
            f"{world}{said}": _in_world(world, cell(of_arm(runs, best, world)))
            for said, cell in (
                ("", lambda _: accuracy(kind)),
                (f", minus {names[best]}", lambda others: less(others, kind)),
            )
            for world in tabular.WORLDS_USED
        }
        return table(runs, arms, names, columns)

    return {
        "tabular": lambda: made(MAIN, "stream", "hard"),
        "tabular-instructions": lambda: made(INSTRUCTIONS, "inspo", "all"),
    }


def _in_world(world: str, cell: Cell) -> Cell:
    return lambda runs: cell(chosen) if (chosen := of_world(runs, world)) else "–"


def _tabular_blocks(world: str, runs: Sequence[Run]) -> dict[str, Callable[[], str]]:
    names = tabular.labels()
    templates = [name for name, arm in tabular.ARMS.items() if "inspo" not in arm.methods]
    instructions = [name for name, arm in tabular.ARMS.items() if "inspo" in arm.methods]
    costs = {name: cell for name, cell in COSTS.items() if name != "CPU seconds"}
    return {
        f"tabular-{world}": lambda: table(
            runs, templates, names, {"runs": count, **BY_KIND, **costs}
        ),
        f"tabular-{world}-claims": lambda: claims(runs, tabular_claims(templates), names),
        f"tabular-{world}-inspo": lambda: table(
            runs,
            instructions,
            names,
            {
                "runs": count,
                "all words": accuracy("all"),
                "all, area": accuracy("all", AREA),
                "all words, without the instruction": without,
                **costs,
            },
        ),
        f"tabular-{world}-inspo-claims": lambda: claims(
            runs,
            [
                *(Claim("inspo", one, "all") for one in instructions if one != "inspo"),
                Claim("inspo", "inspo, after", "all", AREA),
                Claim("both", "stream", "all"),
            ],
            names,
        ),
    }


def tabular_claims(templates: Sequence[str]) -> list[Claim]:
    """Claim the stream above every other arm without an instruction, and by .3 above one template a group;
    and what curves' ends do not show."""
    others = [name for name in templates if name != "stream"]
    apart = [Claim("stream", name, by=0.3) for name in others if "one template" in name]
    areas = ("p2o", "search, then train", "stream, teacher errs 0.6")
    return [
        *(Claim("stream", name) for name in others),
        *apart,
        Claim("p2o", "p2o, one template", by=0.3),
        *(Claim("stream", name, column=AREA) for name in areas),
        Claim("stream, exact teacher", "stream", column=AREA),
        Claim("stream, exact teacher", "stream, teacher errs 0.3", column=AREA),
        Claim("stream, teacher errs 0.3", "stream", column=AREA),
        Claim("stream, success weight", "stream", column=AREA),
        Claim("p2o", "search, then train"),
        Claim("p2o, bare", "search, then train"),
    ]


def without(runs: Sequence[Run]) -> str:
    """Return the share of all words that are right without the instruction."""
    return f"{sum(run['without']['all'] for run in runs) / len(runs):.2f}"


_PLANNED: Final = {
    "tabular": tabular,
    "transformer": transformer,
    "language_model": language_model,
}
"""The tiers whose plan the page counts."""


def _machines(stores: Mapping[str, Store]) -> str:
    lines = []
    for tier in _PLANNED:
        for facts in stores[tier].machines():
            versions = ", ".join(f"{name} {found}" for name, found in facts["packages"].items())
            lines.append(
                f"- {tier.replace('_', ' ')}: {facts['cpu']}, {facts['cores']} cores, {facts['system']}, "
                f"Python {facts['python']}, {versions}"
            )
    return "\n".join(lines)


def _status(stores: Mapping[str, Store]) -> str:
    """Report how many of the planned runs exist, and how long they took."""
    said = []
    for name, tier in _PLANNED.items():
        planned = set(tier.plan(list(tier.ARMS), None, None))
        made = [run for run in stores[name].runs if key_of(run) in planned]
        hours = sum(run["cpu_seconds"] for run in made) / 3600
        said.append(
            f"Of the {name.replace('_', ' ')} tier {len(made)} of {len(planned)} planned runs are made, in "
            f"{hours:.1f} CPU hours without evaluation."
        )
    return " ".join(
        [*said, "What is missing is missing from the tables, whose column *runs* says so."]
    )
