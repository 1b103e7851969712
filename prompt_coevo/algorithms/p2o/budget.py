"""The rollout budget of one search: the accounting of P2O Algorithm 3."""

from __future__ import annotations

from prompt_coevo.algorithms.p2o.settings import Overspend


class RolloutBudget:
    """Count what a search may still spend, in policy rollouts.

    A proposal costs `2 * minibatch` (the parent's rollouts and the child's), and `dev` more if it is
    accepted. With `overspend="never"` a wave holds only as many proposals as the budget can pay in full.
    With `"literal"` the budget is only tested between waves, as in Algorithm 3.
    """

    def __init__(self, total: int, *, minibatch: int, dev: int, overspend: Overspend) -> None:
        self.total = total
        self.spent = 0
        self._minibatch = minibatch
        self._dev = dev
        self._overspend: Overspend = overspend

    @property
    def left(self) -> int:
        return self.total - self.spent

    @property
    def overshoot(self) -> int:
        """Rollouts spent beyond the total; 0 unless `overspend="literal"`."""
        return max(0, -self.left)

    def affordable(self, proposals: int) -> int:
        """Count how many of the next `proposals` may be started."""
        if self._overspend == "literal":
            return proposals if self.left > 0 else 0
        return min(proposals, max(0, self.left) // (2 * self._minibatch + self._dev))

    def can_score_dev(self) -> bool:
        """Return True if the budget can pay for one more evaluation on the dev questions."""
        return self._overspend == "literal" or self.left >= self._dev

    def charge_dev(self, candidates: int = 1) -> None:
        """Charge dev evaluations of candidates (line 17, and line 2 for the empty template)."""
        self.spent += candidates * self._dev

    def charge_attempt(self) -> None:
        """Charge the parent's half of a proposal, even if its rollouts came from the cache."""
        self.spent += self._minibatch

    def charge_child(self) -> None:
        """Charge the child's half of a proposal (line 14 charges both halves together)."""
        self.spent += self._minibatch
