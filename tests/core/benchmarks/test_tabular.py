"""Check tier 1 of the benchmark of methods in a world that takes a fraction of a second."""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo import Candidate, hookimpl
from prompt_coevo.types import Assignment, Group, PolicyVersion, Question, Rollout

FOLDER = Path(__file__).parents[3] / "benchmarks" / "methods"
BUDGET = 4_000
ARMS = (
    *("grpo", "grpo, 2 x", "p2o", "p2o, one template", "p2o, bare", "stream"),
    *("stream, one template", "stream, no distillation", "stream, success weight"),
    *("stream, exact teacher", "stream, teacher errs 0.3", "stream, teacher errs 0.6"),
    *(
        "stream, random teacher",
        "stream, random teacher, few calls",
        "stream, filler teacher",
        "random hints",
        "true hints",
    ),
    *("search only", "search, then train", "static", "inspo", "inspo, before", "inspo, after"),
    *("inspo, oldest leave", "inspo, constant", "inspo, no verify", "inspo, paraphrase"),
    *("inspo, history", "both"),
)


@pytest.fixture
def tabular(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import the module with only the world "tiny"."""
    monkeypatch.syspath_prepend(str(FOLDER))
    module = importlib.import_module("tabular")
    worlds = importlib.import_module("tabular_world")
    tiny = worlds.Knobs(
        easy=3, medium=2, hard=3, meanings=16, questions=96, rollouts=BUDGET, batch=16
    )
    monkeypatch.setitem(worlds.WORLDS, "tiny", tiny)
    monkeypatch.setitem(module.SEARCH_AFTER, "tiny", BUDGET // 2)
    monkeypatch.setitem(module.CALLS, "tiny", 9)
    yield module
    logging.disable(logging.NOTSET)


def test_the_arms_are_these(tabular: Any) -> None:
    assert tuple(tabular.ARMS) == ARMS
    assert len({arm.label for arm in tabular.ARMS.values()}) == len(ARMS)


def test_what_decides_a_run_can_be_written_down(tabular: Any) -> None:
    written = json.loads(json.dumps(tabular.frozen()))
    assert set(written) == set(ARMS)
    assert set(written["grpo"]["common"]["worlds"]) == {"B", "C", "E"}
    assert written["grpo, 2 x"]["arm"]["budgets"] == 2
    assert written["stream, exact teacher"]["arm"]["knobs"] == {"errors": 0.0}


def test_the_plan_has_no_arm_twice_under_two_names(tabular: Any) -> None:
    keys = tabular.plan(list(ARMS), 2, 1)
    assert len(set(keys)) == len(keys)
    erring = {(world, arm) for world, arm, *_ in keys if "errs" in arm}
    assert ("B", "stream, teacher errs 0.6") in erring
    assert ("E", "stream, teacher errs 0.3") in erring
    assert ("E", "stream, teacher errs 0.6") not in erring  # it is that world's stream


@pytest.mark.parametrize("arm", ARMS)
def test_a_run_spends_the_budget_and_says_what_came_of_it(tabular: Any, arm: str) -> None:
    one = json.loads(json.dumps(tabular.run("tiny", arm, 1, 10)))
    budget = 2 * BUDGET if arm == "grpo, 2 x" else BUDGET
    assert one["budget"] == budget
    # A search or the verification of a round may be the last thing, and is not cut short.
    assert 0.8 * budget <= one["training"] + one["outside"] <= 1.4 * budget
    assert (one["spent"][0], one["spent"][-1], len(one["spent"])) == (0, budget, 21)
    for accuracies in one["curve"].values():
        assert len(accuracies) == 21
        assert all(0 <= accuracy <= 1 for accuracy in accuracies)
    assert one["curve"]["hard"][0] == 0
    kinds = [kind for kind, _, _ in one["words"].values()]
    assert kinds == ["easy"] * 3 + ["medium"] * 2 + ["hard"] * 3
    assert all(end in (0, 1) and 0 <= area <= 1 for _, end, area in one["words"].values())
    without = one["without"]["all"] == one["curve"]["all"][-1]
    assert without or "inspo" in tabular.ARMS[arm].methods
    assert ("with_templates" in one) == (arm == "search only")
    asks = bool(tabular.ARMS[arm].methods)
    assert (one["calls"] > 0) == (one["tokens"] > 0) == (asks and arm != "static")


def test_a_teacher_may_be_asked_a_few_times_alone(tabular: Any) -> None:
    assert tabular.run("tiny", "stream, random teacher, few calls", 1, 10)["calls"] == 9


def test_a_run_comes_out_again(tabular: Any) -> None:
    runs = [tabular.run("tiny", "both", 2, 10) for _ in range(2)]
    for one in runs:
        del one["cpu_seconds"]
    assert runs[0] == runs[1]
    assert tabular.run("tiny", "both", 3, 10)["curve"] != runs[0]["curve"]


def test_true_hints_teach_what_no_rollout_finds(tabular: Any) -> None:
    hard = {arm: tabular.run("tiny", arm, 1, 10)["curve"]["hard"] for arm in ("grpo", "true hints")}
    assert hard["grpo"][-1] == 0
    assert hard["true hints"][-1] > 0.8


def test_a_search_on_the_frozen_policy_teaches_nothing_and_finds_templates(tabular: Any) -> None:
    one = tabular.run("tiny", "search only", 1, 10)
    assert set(one["curve"]["hard"]) == {0.0}
    assert one["with_templates"] > 0.2
    assert one["training"] % (96 * 6) == 0  # whole epochs that measure


def test_a_point_of_the_curve_is_by_the_weights_that_so_many_rollouts_made(tabular: Any) -> None:
    run = tabular._Run("tiny", tabular.ARMS["true hints"], 1, 10)
    train, known = run.policy.train, []

    def watched(plan: Sequence[Assignment]) -> list[Rollout]:
        known.append((run.policy.spent, run.policy.right("").tolist()))
        rollouts: list[Rollout] = train(plan)
        return rollouts

    run.policy.train = watched
    run.go()
    for place, point in enumerate(run.meter.right[:-1]):
        before = [right for spent, right in known if spent <= run.meter.grid[place]]
        assert point.tolist() == before[-1]


def _group(bare: float, number: str = "q1") -> Group:
    return Group(number, (Rollout(Assignment(number), "", bare),))


def test_only_what_failed_bare_gets_a_template_and_one_member_none(tabular: Any) -> None:
    plugin = tabular.ForTheHard(lambda question, number, count: [f"t{n}" for n in range(count)])

    class Policy:
        def question_ids(self) -> list[str]:
            return ["q1", "q2", "q3"]

        def question(self, question_id: str) -> Question:
            return Question(question_id, "use w1", "3")

    plugin.coevo_train_begin(Policy())
    assert plugin.coevo_plan_group("q1", 0, 3) is None
    plugin.coevo_observe([_group(0.0), _group(1.0, "q2")])
    assert plugin.coevo_plan_group("q2", 1, 3) is None
    planned = [plan.template.text for plan in plugin.coevo_plan_group("q1", 1, 3)]
    assert planned == ["", "t0", "t1"]
    plugin.coevo_observe([_group(1.0)])
    assert plugin.coevo_plan_group("q1", 2, 3) is None


def test_hints_explain_the_questions_words(tabular: Any) -> None:
    question = Question("q7", "use w4 w2 on n7", "3-5")
    assert tabular.true_hints(question, 0, 2) == ["w4 means s3 . w2 means s5 ."] * 2
    drawn = tabular.random_hints(1, 16)(question, 0, 50)
    assert len(set(drawn)) > 25
    assert all("w4 means" in text and "w2 means" in text for text in drawn)


def test_the_template_of_the_most_success_with_all_words_is_the_best(tabular: Any) -> None:
    tally = tabular.Tally(4)
    for text, words, reward in (
        *[("one", (0, 1), 1.0)] * 3,
        *[("two", (1, 2), 1.0)] * 2,
        *[("two", (0, 3), 0.0)] * 2,
    ):
        template = Candidate(text, "template")
        tally.count(Rollout(Assignment("q", template=template), "", reward), words)
    found = tabular.Found(tally)
    assert found.best((0, 1), 1) == []
    found.texts = ["two", "one"]
    found.close()
    assert found.best((0, 1), 3) == ["one", "two", "one"]
    assert found.best((1, 2), 1) == ["two"]


def test_the_oldest_leave_whatever_they_are_worth(tabular: Any) -> None:
    run = tabular._Run("tiny", tabular.ARMS["inspo, oldest leave"], 1, 10)
    broods: list[tuple[list[PolicyVersion], list[PolicyVersion]]] = []

    class Listener:
        @hookimpl
        def coevo_after_population_changed(
            self, population: Sequence[Candidate], removed: Sequence[Candidate]
        ) -> None:
            if removed:
                broods.append(
                    ([one.created for one in removed], [one.created for one in population])
                )

    run._train(run._engine({"listener": Listener()}), BUDGET)
    assert broods
    assert all(max(gone) <= min(left) for gone, left in broods)


def test_all_templated_members_of_a_group_share_one_template(tabular: Any) -> None:
    run = tabular._Run("tiny", tabular.ARMS["stream, one template"], 1, 10)
    groups: list[set[str]] = []
    train = run.policy.train

    def watched(plan: Any) -> Any:
        for start in range(0, len(plan), 6):
            members = plan[start : start + 6]
            if any(one.templated for one in members):
                assert not members[0].templated
                groups.append({one.template.text for one in members[1:]})
        return train(plan)

    run.policy.train = watched
    run.go()
    assert groups
    assert all(len(texts) == 1 for texts in groups)


def test_a_paraphrase_keeps_the_rules_and_history_mixes_those_that_did_well(tabular: Any) -> None:
    run = tabular._Run("tiny", tabular.ARMS["inspo"], 1, 10)
    read = importlib.import_module("tabular_world").clauses
    rules = {0: 5, 1: 6, 2: 7}
    text = " ".join(f"w{word} means s{told} ." for word, told in rules.items())
    asked = f"<ins_0>\n{text}\n</ins_0>\nWrite 40 other versions of it"
    replies = run.teacher(asked).split("\n")
    same = [reply for reply in replies if read(reply) == rules]
    assert len(replies) == 40
    assert 20 <= len(same) < 40  # the others made a rule up
    assert len(set(replies)) > 10
    history = (
        f"<ins_1>\nw0 means s1 .\n</ins_1>\n<score_1>0</score_1>\n\n<ins_2>\n{text}\n</ins_2>\n"
        "<score_2>90</score_2>\nThen write 40 new instructions"
    )
    mixed = [read(reply) for reply in run.teacher(history).split("\n")]
    assert len(mixed) == 40
    assert sum(one.get(1) == 6 for one in mixed) > 20
    assert run.teacher.calls == 2
    assert run.teacher.tokens > 0
