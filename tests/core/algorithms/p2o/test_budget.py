from __future__ import annotations

from prompt_coevo.algorithms.p2o.budget import RolloutBudget


def test_never_overspend_shrinks_a_wave_to_what_can_be_paid_in_full() -> None:
    budget = RolloutBudget(
        100, minibatch=3, dev=10, overspend="never"
    )  # a proposal may cost 2 * 3 + 10 = 16
    budget.charge_dev()
    assert budget.left == 90
    assert budget.affordable(16) == 5
    assert budget.affordable(2) == 2


def test_a_wave_that_was_afforded_never_overspends() -> None:
    budget = RolloutBudget(100, minibatch=3, dev=10, overspend="never")
    budget.charge_dev()
    while (wave := budget.affordable(4)) > 0:
        for _ in range(wave):
            budget.charge_attempt()
            budget.charge_child()
        budget.charge_dev(wave)
    assert 0 <= budget.left < 16
    assert budget.overshoot == 0


def test_the_literal_mode_tests_between_waves_alone() -> None:
    budget = RolloutBudget(10, minibatch=3, dev=10, overspend="literal")
    assert budget.affordable(16) == 16
    budget.charge_dev()
    assert budget.affordable(16) == 0
    budget.charge_attempt()
    assert budget.overshoot == 3


def test_a_budget_below_one_dev_evaluation() -> None:
    assert not RolloutBudget(9, minibatch=3, dev=10, overspend="never").can_score_dev()
    assert RolloutBudget(9, minibatch=3, dev=10, overspend="literal").can_score_dev()


def test_a_rejected_proposal_costs_half() -> None:
    budget = RolloutBudget(100, minibatch=3, dev=10, overspend="never")
    budget.charge_attempt()
    assert budget.spent == 3
    budget.charge_child()
    assert budget.spent == 6
