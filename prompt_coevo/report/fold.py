"""Fold a whole journal into a `Run`: candidates and verdicts, reflection calls, steps, questions.

The page and the commands feed it a whole file, the live page the new lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from prompt_coevo.report.fields import Fields, is_whole, number
from prompt_coevo.report.lineage import Lineage
from prompt_coevo.report.run import Call, Ending, Note, Run, RunError, Score

_QUIET: Final = frozenset({"state_saved", "reflection_awaited"})
_LONGEST_NOTE: Final = 2_000


class Fold(Lineage):
    """Takes all events; unknown ones become notes with their fields as text."""

    def result(self) -> Run:
        """Return the run, or the one before it if this one has no step, as after a refused start.

        Raise RunError if nothing was readable.
        """
        if not self.run.events:
            raise RunError(
                f"the journal in {self.run.folder} holds no event that can be read "
                f"({self.run.damaged} damaged lines); was the run killed as it began?"
            )
        if not self.run.steps and self.before is not None:
            return self.before
        return self.run

    def _on_training_ended(self, event: Fields) -> None:
        self.run.ended = True

    def _on_run_refused(self, event: Fields) -> None:
        self.run.refused = event.text("reason")

    def _on_summary(self, event: Fields) -> None:
        lines = tuple(event.items("lines", str))
        self.run.ending = Ending(event.text("text"), lines, event.inside("findings").values)

    def _on_gap(self, event: Fields) -> None:
        self.run.lost += event.whole("lost")

    # Texts and calls

    def _on_text(self, event: Fields) -> None:
        self._texts[event.text("id")] = event.text("text")

    def _on_question(self, event: Fields) -> None:
        name, text = event.text("question"), self._texts.get(event.text("text"))
        if text is not None:
            self.run.questions[name] = text

    def _on_reply(self, event: Fields) -> None:
        usage = event.inside("usage")
        call = Call(
            at=event.at,
            number=event.whole("call"),
            request=event.text("request"),
            prompt=self._texts.get(event.maybe("prompt") or ""),
            text=event.maybe("text"),
            error=event.maybe("error"),
            finish_reason=event.maybe("finish_reason"),
            prompt_tokens=usage.whole("prompt_tokens"),
            completion_tokens=usage.whole("completion_tokens"),
            usd=usage.number("usd") or 0.0,
        )
        self.run.calls.append(call)
        self.run.requests.setdefault(call.request, []).append(call)

    # Numbers

    def _on_metrics(self, event: Fields) -> None:
        self._step(event).metrics = event.by_name("metrics")
        self.run.refused = None  # training was begun again in the same process

    def _on_rewards(self, event: Fields) -> None:
        step = self._step(event)
        step.templated = event.inside("templated").number("reward")
        step.untemplated = event.inside("untemplated").number("reward")
        step.uses = tuple(_uses(event))
        bare, under = Score(), Score()
        for _, template, rollouts, reward in step.uses:
            (bare if template is None else under).add(rollouts, reward)
        step.hard_untemplated, step.hard_templated = bare.mean, under.mean

    # Told as they stand

    def _on_search_skipped(self, event: Fields) -> None:
        super()._on_search_skipped(event)
        self._on_other(event)

    _on_search_failed = _on_search_skipped

    def _on_other(self, event: Fields) -> None:
        run, name = self.run, event.text("event")
        if name in _QUIET:
            return
        run.others[name] = run.others.get(name, 0) + 1
        told = {
            key: value
            for key, value in event.values.items()
            if key not in ("time", "event", "attempt", "step")
        }
        text = json.dumps(told, ensure_ascii=False)[:_LONGEST_NOTE] if told else ""
        run.notes.append(Note(event.at, name, text))


def _uses(event: Fields) -> Iterator[tuple[str, str | None, int, float]]:
    for row in event.items("uses", list):
        question, template, rollouts, reward = row if len(row) == 4 else [None] * 4
        if not isinstance(question, str) or not isinstance(template, str | None):
            continue
        if is_whole(rollouts) and (mean_reward := number(reward)) is not None:
            yield question, template, rollouts, mean_reward
