"""Check E-SPL: prompts compared on the same questions, their ratings and their children."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo import Candidate, Coevolution, Settings, hookimpl
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.errors import SettingsError
from prompt_coevo.types import Assignment, Group, Rollout

CHILD = re.compile(r"<current_1>(.*?)</current_1>.*<current_2>(.*?)</current_2>", re.DOTALL)


class Teacher:
    """Add the key of the first failure to the parent, or replace the others by it if forgetful; join two
    parents. Record the prompts."""

    def __init__(self, *, forgets: bool = False) -> None:
        self.prompts: list[str] = []
        self._forgets = forgets

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        crossed = CHILD.search(prompt)
        if crossed:
            words = " ".join(crossed.groups()).split()
        else:
            numbers = re.findall(r"what is (\d+)\?", prompt)[:1]
            parent = re.search(r"<ins_0>(.*?)</ins_0>", prompt, re.DOTALL)
            assert parent is not None
            kept = parent[1].split()[:1] if self._forgets else parent[1].split()
            words = [*kept, *(f"k{int(n) % 4}" for n in numbers)]
        return f"<ins_1>{' '.join(dict.fromkeys(words))}</ins_1>"


def engine_of(teacher: Any, espl: dict[str, Any] | None = None, **more: Any) -> Coevolution:
    settings = Settings(
        algorithms=("espl",),
        plugins={"espl": {"instruction": "Think.", **(espl or {})}},
        reflection={"function": teacher},
        **{name: more.pop(name) for name in ("seed",) if name in more},
    )
    return Coevolution.from_settings(settings, **more)


def pool_of(engine: Coevolution) -> list[dict[str, Any]]:
    pool: list[dict[str, Any]] = plugin_states(engine.state_dict())["espl"]["pool"]
    return pool


def prompts_of(group: list[Assignment]) -> list[str]:
    return [one.instruction.text for one in group if one.instruction]


# Ratings


def test_a_match_moves_the_winner_up_and_the_loser_down_and_makes_both_surer() -> None:
    from prompt_coevo_espl.ratings import Rating, after_match

    winner, loser = after_match([Rating(), Rating()], [1.0, 0.5])
    assert winner.mu > 25.0 > loser.mu
    assert winner.sigma == loser.sigma < 25.0 / 3.0
    assert winner.lower < winner.mu < winner.upper


def test_a_surprise_says_more_than_what_was_expected() -> None:
    from prompt_coevo_espl.ratings import Rating, after_match

    strong, weak = Rating(30.0, 4.0), Rating(20.0, 4.0)
    expected, _ = after_match([strong, weak], [1.0, 0.0])
    surprise, _ = after_match([strong, weak], [0.0, 1.0])
    assert 0 < expected.mu - strong.mu < strong.mu - surprise.mu


def test_who_is_unsure_moves_more() -> None:
    from prompt_coevo_espl.ratings import Rating, after_match

    sure, unsure = Rating(25.0, 1.0), Rating(25.0, 8.0)
    won, lost = after_match([sure, unsure], [1.0, 0.0])
    assert won.mu - 25.0 < 25.0 - lost.mu


@pytest.mark.parametrize("scores", [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.5, 0.505, 0.5)])
def test_a_question_on_which_all_do_alike_says_nothing(scores: tuple[float, ...]) -> None:
    from prompt_coevo_espl.ratings import Rating, after_match

    before = [Rating(30.0, 2.0), Rating(25.0, 5.0), Rating(20.0, 1.0)]
    assert after_match(before, scores, tie=0.01) == before


def test_ties_within_a_match_are_one_rank_and_order_does_not_matter() -> None:
    from prompt_coevo_espl.ratings import Rating, after_match

    first, second, third = after_match([Rating()] * 3, [1.0, 0.0, 0.005], tie=0.01)
    assert second == third
    assert after_match([Rating()] * 3, [0.0, 1.0, 0.0]) == [second, first, third]


def test_ratings_find_the_stronger_of_two() -> None:
    from prompt_coevo_espl.ratings import Rating, after_match

    ratings = [Rating(), Rating()]
    for match in range(40):
        ratings = after_match(ratings, [1.0, 0.0] if match % 4 else [0.0, 1.0])
    assert ratings[0].lower > ratings[1].mu


def test_a_child_is_rated_like_its_parents_and_less_surely() -> None:
    from prompt_coevo_espl.ratings import Rating, of_child

    sure, unsure = Rating(30.0, 1.0), Rating(20.0, 3.0)
    (alone, crossed) = of_child([sure], 1.0), of_child([sure, unsure], 1.0)
    assert alone == Rating(30.0, pytest.approx(2.0**0.5))
    assert crossed.mu == pytest.approx(29.0), "nearer to the parent that is known better"
    assert crossed.sigma == pytest.approx((0.9 + 1.0) ** 0.5)


# Who is compared


def make_pool(ratings: list[tuple[float, float]], size: int = 10) -> Any:
    from prompt_coevo_espl.pool import Pool

    pool = Pool(Candidate("p0", "instruction"), size)
    pool.load(
        [
            {"prompt": Candidate(f"p{n}", "instruction").to_json(), "mu": mu, "sigma": sigma}
            for n, (mu, sigma) in enumerate(ratings)
        ]
    )
    return pool


def test_the_surely_good_the_newest_and_the_promising_are_compared() -> None:
    pool = make_pool([(25, 1), (20, 1), (22, 8), (24, 1), (10, 1)])
    assert pool.best.text == "p0"
    assert [one.text for one in pool.by_bounds(3)] == ["p0", "p4", "p2"]
    assert [one.text for one in pool.by_bounds(9)] == ["p0", "p4", "p2", "p3", "p1"]


def test_draws_from_the_ratings_choose_the_good_more_often() -> None:
    import numpy as np

    pool = make_pool([(25, 2), (28, 2), (10, 1)])
    draws = [[one.text for one in pool.by_draw(2, np.random.default_rng(n))] for n in range(200)]
    firsts = [draw[0] for draw in draws]
    assert firsts.count("p1") > firsts.count("p0") > 0 == firsts.count("p2")
    assert all(len(set(draw)) == 2 for draw in draws)


def test_a_full_pool_drops_the_surely_weak_and_never_the_best() -> None:
    from prompt_coevo_espl.ratings import Rating

    pool = make_pool([(20, 0.1), (15, 8), (16, 1)], size=3)
    removed = pool.add(Candidate("new", "instruction"), Rating())
    assert [one.text for one in removed] == ["p2"]
    assert [one.text for one in pool.members] == ["p0", "p1", "new"]
    pool = make_pool([(20, 0.1), (19, 4)], size=2)
    assert pool.best.text == "p0", "though its upper bound is the lowest"
    assert [one.text for one in pool.add(Candidate("new", "instruction"), Rating())] == ["p1"]


def test_prompts_that_are_gone_play_no_match() -> None:
    pool = make_pool([(25, 2), (25, 2)])
    first, second = (one.id for one in pool.members)
    assert not pool.match({first: 1.0, "gone": 0.0}, 0.0)
    assert pool.match({first: 1.0, second: 0.0, "gone": 0.0}, 0.0)
    assert pool.best.id == first


# A run


@pytest.mark.parametrize(("size", "counts"), [(6, [2, 2, 2]), (7, [2, 2, 3]), (2, [1, 1])])
def test_the_members_of_a_group_run_under_different_prompts(
    policy: Any, round_of: Any, size: int, counts: list[int]
) -> None:
    engine = engine_of(Teacher(), {"crossover_share": 0.0})
    engine.begin(policy)
    assert {*prompts_of(round_of(engine, policy, size))} == {"Think."}
    for _ in range(2):
        round_of(engine, policy, size)
    plan = engine.plan(["q0", "q1", "q2"], size)
    groups = [prompts_of(plan[start : start + size]) for start in range(0, 3 * size, size)]
    for group in groups:
        assert sorted(group.count(text) for text in set(group)) == counts
    assert len(set(prompts_of(plan))) == 3
    everyone = [prompts_of(plan).count(text) for text in set(prompts_of(plan))]
    assert everyone == [size] * 3, "who gets one more changes with the group"


def test_a_better_prompt_becomes_the_best(policy: Any, round_of: Any, tmp_path: Path) -> None:
    engine = engine_of(Teacher(), {"crossover_share": 0.0}, output_dir=tmp_path)
    engine.begin(policy)
    assert engine.evaluation_instruction().text == "Think."
    for _ in range(8):
        round_of(engine, policy)
    assert set(engine.evaluation_instruction().text.split()) == {"Think.", "k0", "k1", "k2", "k3"}
    metrics = engine.metrics()
    assert metrics["coevo/espl_best_mu"] > 25.0
    assert metrics["coevo/espl_matches"] > 0 < metrics["coevo/espl_draws"]
    best = (tmp_path / "coevo/best_instruction.txt").read_text()
    assert best == engine.evaluation_instruction().text
    assert policy.asked == [], "children are not rolled out outside training"


def test_the_prompt_stays_in_the_trained_prompt(policy: Any, round_of: Any) -> None:
    engine = engine_of(Teacher())
    engine.begin(policy)
    assert not engine.may_distill
    for assignment in round_of(engine, policy):
        chat = [{"role": "user", "content": "?"}]
        assert assignment.train_prompt(chat) == assignment.rollout_prompt(chat) != chat


class Family:
    """Record what joined and left, and the pool's size."""

    def __init__(self) -> None:
        self.added: list[Candidate] = []
        self.removed: list[Candidate] = []
        self.sizes: list[int] = []

    @hookimpl
    def coevo_after_population_changed(self, population: Any, added: Any, removed: Any) -> None:
        self.sizes.append(len(population))
        self.added += added
        self.removed += removed


def test_a_child_of_two_parents_has_what_both_know(policy: Any, round_of: Any) -> None:
    """The request has two parents, and failures of the first on questions that only the second won."""
    teacher, family = Teacher(forgets=True), Family()
    engine = engine_of(teacher, {"crossover_share": 1.0}, plugins={"family": family})
    engine.begin(policy)
    for _ in range(12):
        round_of(engine, policy)
    crossed = [one for one in family.added if one.origin == "espl_crossover"]
    assert crossed
    known = {one.id: one for one in [*family.added, Candidate("Think.", "instruction")]}
    for child in crossed:
        first, second = (known[name] for name in child.parents)
        assert set(child.text.split()) == {*first.text.split(), *second.text.split()}
        assert first != second
    prompts = [prompt for prompt in teacher.prompts if "<current_1>" in prompt]
    for prompt in prompts:
        found = CHILD.search(prompt)
        assert found is not None
        shown = {f"k{int(n) % 4}" for n in re.findall(r"what is (\d+)\?", prompt)}
        assert not shown & set(found[1].split()), "the first parent would have solved it"
        assert shown <= set(found[2].split()), "the second one did"
    assert any("<failure_1>" in prompt for prompt in prompts)
    mutated = [one for one in family.added if one.origin == "reflection"]
    assert all(len(one.parents) == 1 for one in mutated)


def test_without_a_share_nobody_is_crossed(policy: Any, round_of: Any) -> None:
    def crossings(share: float) -> int:
        teacher = Teacher(forgets=True)
        engine = engine_of(teacher, {"crossover_share": share})
        engine.begin(policy)
        for _ in range(12):
            round_of(engine, policy)
        return sum("<current_1>" in prompt for prompt in teacher.prompts)

    assert crossings(0.0) == 0 < crossings(1.0)


def test_the_population_is_bounded(policy: Any, round_of: Any) -> None:
    family, numbers = Family(), iter(range(10**6))
    engine = engine_of(
        lambda prompt: f"<ins_1>useless {next(numbers)}</ins_1>",
        {"population_size": 4, "crossover_share": 0.0},
        plugins={"family": family},
    )
    engine.begin(policy)
    for _ in range(10):
        round_of(engine, policy)
    assert max(family.sizes) == 4
    assert len(family.removed) == len(family.added) - 3 > 0


def test_the_gates_refuse_a_child_before_it_joins(policy: Any, round_of: Any) -> None:
    class NoShouting:
        @hookimpl
        def coevo_check_candidate(self, candidate: Candidate) -> str | None:
            return "too loud" if candidate.text.isupper() else None

    engine = engine_of(lambda prompt: "<ins_1>LOUD</ins_1>", plugins={"no_shouting": NoShouting()})
    engine.begin(policy)
    for _ in range(3):
        round_of(engine, policy)
    assert engine.metrics()["coevo/espl_population"] == 1


@pytest.mark.parametrize("reply", ["", "no tags", "<ins_1>Think.</ins_1>", RuntimeError("down")])
def test_a_reflection_model_that_is_no_help_does_no_harm(
    policy: Any, round_of: Any, reply: Any
) -> None:
    def broken(prompt: str) -> str:
        if isinstance(reply, Exception):
            raise reply
        return str(reply)

    engine = engine_of(broken)
    engine.begin(policy)
    round_of(engine, policy)
    assert {*prompts_of(round_of(engine, policy))} == {"Think."}


def test_nothing_is_asked_when_nothing_failed_or_after_the_end(policy: Any, round_of: Any) -> None:
    teacher = Teacher()
    engine = engine_of(teacher, {"instruction": "k0 k1 k2 k3"})
    engine.begin(policy)
    round_of(engine, policy)
    assert teacher.prompts == []
    engine = engine_of(teacher, {"evolve_until": 3, "crossover_share": 0.0})
    engine.begin(policy)
    for _ in range(6):
        round_of(engine, policy)
    assert len(teacher.prompts) == 2
    assert plugin_states(engine.state_dict())["espl"]["evidence"]["rewards"] == {}


def test_templated_and_unfit_rollouts_rate_nobody() -> None:
    from prompt_coevo_espl.evidence import Evidence

    prompt, template = Candidate("p", "instruction"), Candidate("z", "template")
    rollouts = (
        Rollout(Assignment("q", instruction=prompt, template=template), "", 1.0),
        Rollout(Assignment("q", instruction=prompt), "", 1.0, "tool_error"),
        Rollout(Assignment("q"), "", 1.0),
        Rollout(Assignment("q", instruction=prompt), "", 0.25),
    )
    evidence = Evidence()
    assert evidence.add(Group("q", rollouts), 1.0, 0.0) == {prompt.id: 0.25}
    assert [failure.reward for failure in evidence.failures(prompt.id)] == [0.25]


def test_a_round_can_be_one_match(policy: Any, round_of: Any) -> None:
    """As in the authors' code."""
    engine = engine_of(Teacher(), {"matches": "round", "crossover_share": 0.0})
    engine.begin(policy)
    for _ in range(4):
        round_of(engine, policy)
    metrics = engine.metrics()
    assert metrics["coevo/espl_matches"] + metrics["coevo/espl_draws"] == 4
    assert metrics["coevo/espl_matches"] >= 2


@pytest.mark.parametrize("selection", ["bounds", "posterior"])
@pytest.mark.parametrize("observed", [True, False])
def test_a_killed_run_goes_on_as_the_one_that_was_not(
    policy: Any, round_of: Any, selection: str, observed: bool
) -> None:
    """Also when it was saved between a round and its step."""
    options = {"selection": selection, "crossover_share": 0.5}
    engine = engine_of(Teacher(), options, seed=3)
    engine.begin(policy)
    for _ in range(4):
        round_of(engine, policy)
    if observed:
        engine.observe([policy.answer(one) for one in engine.plan(sorted(policy.questions), 6)])
    state = json.loads(json.dumps(engine.state_dict(), sort_keys=True))
    resumed = engine_of(Teacher(), options, seed=3)
    resumed.load_state_dict(state)
    resumed.begin(policy)
    plans = []
    for one in (engine, resumed):
        if observed:
            one.step_end(policy)
        plans.append([prompts_of(round_of(one, policy)) for _ in range(4)])
    assert plans[0] == plans[1]
    assert pool_of(engine) == pool_of(resumed)
    assert len(pool_of(engine)) > 3


def test_questions_that_the_dataset_has_lost_are_not_shown(policy: Any, round_of: Any) -> None:
    teacher = Teacher()
    engine = engine_of(teacher)
    engine.begin(policy)
    engine.observe([policy.answer(one) for one in engine.plan(sorted(policy.questions), 6)])
    for name in list(policy.questions)[1:]:
        del policy.questions[name]
    engine.step_end(policy)
    (prompt,) = teacher.prompts
    assert set(re.findall(r"what is \d+\?", prompt)) == {"what is 0?"}


def test_it_starts_from_the_datasets_system_message() -> None:
    settings = Settings(algorithms=("espl",), reflection={"function": Teacher()})
    engine = Coevolution.from_settings(settings, system_message=lambda: "Be exact.")
    assert engine.evaluation_instruction().text == "Be exact."
    with pytest.raises(SettingsError, match=r"set plugins\.espl\.instruction"):
        Coevolution.from_settings(settings)


def test_settings_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"plugins\.espl\.at_once = 5 cannot be greater"):
        Settings(algorithms=("espl",), plugins={"espl": {"at_once": 5, "population_size": 4}})
    with pytest.raises(SettingsError, match=r"plugins\.espl\.crossover has no effect"):
        Settings(
            algorithms=("espl",), plugins={"espl": {"crossover": "mine", "crossover_share": 0.0}}
        )
    with pytest.raises(SettingsError, match="there is no such proposer"):
        engine_of(Teacher(), {"mutation": "nobody"})
