"""Forecast the cost of a run: searches and their rollouts, reflection calls, tokens and dollars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from prompt_coevo.preflight.page import Line, plural
from prompt_coevo.settings import Settings
from prompt_coevo.settings.method import Cost, Foresight, Method, Workload

# An upper bound for the meta-prompts, in tokens.
_META_PROMPT: Final = 1500
_PARTS_OF_AN_EXAMPLE: Final = 3  # question, response, right answer
_TOPIC: Final = "forecast"
# Likely sizes in tokens: meta-prompt with a template, question, response, reply with its reasoning.
_LIKELY_META: Final = 450
_LIKELY_QUESTION: Final = 100
_LIKELY_RESPONSE: Final = 200
_LIKELY_REPLY: Final = 300
_ROWS_A_QUESTION: Final = 2
"""With more rows per question, most rows repeat an earlier question."""

Price: TypeAlias = Callable[[int, int], float]
"""Dollars for so many prompt and reply tokens; 0 if unknown."""


def forecast(
    settings: Settings,
    methods: Mapping[str, Method],
    workload: Workload,
    price: Price | None,
    question_tokens: int | None = None,
) -> Iterator[Line]:
    """Yield the lines about the length of the run and each method.

    `price` is None without a reflection model. `question_tokens` is the questions' mean length, if known.
    """
    rows = workload.questions if workload.rows is None else workload.rows
    if same := few_questions(rows, workload.questions, settings.question_id_column):
        yield Line(
            "warning", "questions", f"{same}, and the columns that methods may read by row_columns"
        )
    yield Line("ok", _TOPIC, _training(workload))
    for method in methods.values():
        section = settings.section(method.section)
        foresight = method.foresee(section, workload)
        if foresight.never is not None:
            yield Line("problem", _TOPIC, f"{method.name}: {foresight.never}")
        elif foresight.unknown is not None:
            yield Line("note", _TOPIC, f"{method.name}: {_unknown(foresight.unknown)}")
        cost = method.estimate(section, workload)
        if cost is not None:
            yield Line("ok", _TOPIC, _cost(method.name, cost, foresight, workload))
            if cost.calls:
                tokens = _tokens(settings, cost, foresight, price)
                yield Line("ok", _TOPIC, f"{method.name}, {cost.when}: {tokens}")
                if cost.likely is not None:
                    likely = _likely(settings, cost.likely, cost, foresight, price, question_tokens)
                    yield Line("ok", _TOPIC, f"{method.name}, likely: {likely}")
        for remark in foresight.remarks:
            yield Line("warning", _TOPIC, f"{method.name}: {remark}")


def few_questions(rows: int, questions: int, id_column: str | None) -> str | None:
    """Say that the rows are far fewer questions, and how to tell these apart; None if they are not."""
    if rows <= _ROWS_A_QUESTION * questions:
        return None
    by, other = "prompt and right answer alone tell", "a"
    if id_column is not None:
        by, other = f"the column {id_column!r} tells", "another"
    return (
        f"{_amount(rows)} rows are {plural(questions, 'question')}, because {by} questions apart; where "
        f"each row is a question, name {other} column with their ids by question_id_column"
    )


def _training(workload: Workload) -> str:
    each = plural(workload.questions, "question")
    if workload.rows is not None and workload.rows != workload.questions:
        each = plural(workload.rows, "row")
    epoch = f"an epoch is {each} × {workload.group_size} = {workload.rollouts} training rollouts"
    length = []
    if workload.epochs is not None:
        length.append(f"{workload.epochs:.3g} epoch{'' if workload.epochs == 1 else 's'}")
    if workload.steps is not None:
        length.append(plural(workload.steps, "step"))
    return f"{epoch}; the run has {', '.join(length)}" if length else epoch


def _unknown(length: str) -> str:
    return (
        f"how many {length} the run has is not known, so it may be too short; give "
        f"prompt-coevo check --{length} to find out"
    )


def _cost(name: str, cost: Cost, foresight: Foresight, workload: Workload) -> str:
    often = ""
    if foresight.searches is not None:
        often = (
            f"{foresight.searches} search{'' if foresight.searches == 1 else 'es'} in this run; "
        )
    share = cost.rollouts / workload.rollouts if workload.rollouts else 0.0
    return (
        f"{name}: {often}{cost.when} at most {plural(cost.rollouts, 'rollout')} outside training "
        f"({share:.0%} of an epoch's {workload.rollouts}) and {plural(cost.calls, 'reflection call')}"
        f"{cost.note}"
    )


def _tokens(settings: Settings, cost: Cost, foresight: Foresight, price: Price | None) -> str:
    """Describe an upper bound: every excerpt and every reply has its greatest length."""
    reflection = settings.reflection
    shown = foresight.shown * _PARTS_OF_AN_EXAMPLE * reflection.max_example_tokens
    candidates = (1 + foresight.listed) * settings.gates.max_candidate_tokens
    prompts = cost.calls * (shown + candidates + _META_PROMPT)
    replies = cost.calls * reflection.longest_reply
    told = (
        f"at most {_amount(prompts)} tokens of reflection prompts and {_amount(replies)} of replies"
    )
    if price is None or reflection.backend_in_use != "litellm":
        return told
    usd = price(prompts, replies)
    return f"{told}, {usd:.2f} USD" if usd else f"{told}; litellm knows no price for them"


def _likely(
    settings: Settings,
    calls: int,
    cost: Cost,
    foresight: Foresight,
    price: Price | None,
    question_tokens: int | None,
) -> str:
    """Describe the likely cost, and where each number comes from."""
    reflection = settings.reflection
    question = _LIKELY_QUESTION if question_tokens is None else question_tokens
    example = min(question, reflection.max_example_tokens) + _LIKELY_RESPONSE
    prompts = calls * (_LIKELY_META + foresight.shown * example)
    replies = calls * min(_LIKELY_REPLY, reflection.longest_reply)
    counted = "assumed" if question_tokens is None else "as counted"
    usd = price(prompts, replies) if price and reflection.backend_in_use == "litellm" else 0.0
    dollars = f", {usd:.2f} USD" if usd else ""
    return (
        f"{plural(calls, 'call')} {cost.likely_when} ({cost.likely_from}), {_amount(prompts)} tokens of "
        f"prompts and {_amount(replies)} of replies{dollars} (questions of {question} tokens, {counted}; "
        f"responses of {_LIKELY_RESPONSE} and replies of {_LIKELY_REPLY}, assumed)"
    )


def _amount(tokens: int) -> str:
    return f"{tokens / 1e6:.1f} million" if tokens >= 1e6 else f"{tokens:,}".replace(",", " ")
