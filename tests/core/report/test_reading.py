"""Check reading of a run's files, whatever state they are in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.journals import INSPO, P2O, STREAM, checked, run_in, write
from prompt_coevo.engine.journal import FORMAT
from prompt_coevo.report.reading import read_run
from prompt_coevo.report.run import RunError


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("settings", [P2O, STREAM, INSPO], ids=["p2o", "stream", "inspo"])
def test_every_candidate_of_the_journal_has_a_fate_and_its_reply(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    folder = run_in(tmp_path, settings)
    run = read_run(folder)
    written = [one for one in events(folder) if one["event"] == "candidate_checked"]
    assert {one["candidate"]["id"] for one in written} <= set(run.candidates)
    assert run.ended
    assert not run.damaged
    assert any(one.fate == "in use" for one in run.candidates.values())
    for one in run.candidates.values():
        for check in one.checks:
            calls = run.requests[check.request]
            assert any(one.text in (call.text or "") for call in calls)
            assert all("<" in (call.prompt or "") for call in calls)


def test_a_trial_is_there_question_by_question_with_its_texts(tmp_path: Path) -> None:
    run = read_run(run_in(tmp_path, P2O))
    trials = [trial for one in run.candidates.values() for trial in one.trials]
    assert trials
    for one in (question for trial in trials for question in trial.questions):
        assert one.text is not None
        assert one.text.startswith("what is ")
        assert one.completion is not None
        assert one.parent_completion is not None


def test_templated_and_untemplated_rewards_are_there_step_by_step(tmp_path: Path) -> None:
    run = read_run(run_in(tmp_path, STREAM))
    assert sorted(run.steps) == list(range(1, 10))
    assert all(step.untemplated is not None for step in run.steps.values())
    under = [step for step in run.steps.values() if step.templated is not None]
    assert under
    for step in under:
        rewards = [(rollouts, reward) for _, name, rollouts, reward in step.uses if name]
        total = sum(rollouts for rollouts, _ in rewards)
        mean = sum(rollouts * reward for rollouts, reward in rewards) / total
        assert mean == pytest.approx(step.templated, abs=1e-5)
        assert step.metrics["coevo/reward_templated"] == pytest.approx(step.templated, abs=1e-5)


def test_the_questions_under_a_template_have_their_texts(tmp_path: Path) -> None:
    run = read_run(run_in(tmp_path, STREAM))
    used = {use[0] for step in run.steps.values() for use in step.uses}
    assert used
    assert used <= set(run.questions)


def test_weights_of_the_instructions_are_there(tmp_path: Path) -> None:
    run = read_run(run_in(tmp_path, INSPO))
    assert all(step.weights for step in run.steps.values())


def test_what_a_resume_has_undone_did_not_happen(tmp_path: Path) -> None:
    resumed = {"event": "resumed", "journal": 1, "attempt": 1, "step": 2}
    folder = write(
        tmp_path,
        [
            checked("a", "early", step=1),
            {"event": "template_joined", "step": 2, "template": "a", "tried": 1, "solved": 1},
            {"event": "metrics", "step": 3, "metrics": {"coevo/hard_samples": 9.0}},
            {"event": "template_dropped", "step": 3, "template": "a", "tried": 5, "solved": 1},
            checked("b", "late", step=3),
            resumed,
            {"event": "metrics", "step": 3, "attempt": 1, "metrics": {"coevo/hard_samples": 7.0}},
        ],
    )
    run = read_run(folder)
    assert run.candidates["a"].fate == "in use"
    assert run.candidates["b"].fate == "undone"
    assert run.steps[3].metrics == {"coevo/hard_samples": 7.0}
    assert len(run.attempts) == 2


def trial(step: int, *, attempt: int = 0) -> list[dict[str, Any]]:
    """Return the events of a check, a trial and a reply without a candidate."""
    verified = {
        "event": "candidate_verified",
        "step": step,
        "attempt": attempt,
        "candidate": "a",
        "parent": "b",
        "accepted": True,
        "questions": ["q"],
        "parent_rewards": [0.0],
        "rewards": [1.0],
    }
    empty = {**checked("", "", step=step), "candidate": None, "attempt": attempt}
    return [{**checked("a", "one", step=step), "attempt": attempt}, verified, empty]


REPLY = {"event": "reply", "call": 1, "request": "r", "usage": {"usd": 1.0}}


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("step", [0, 2])
def test_what_is_done_again_after_a_resume_counts_once(
    step: int, saved: bool, tmp_path: Path
) -> None:
    resumed = {"event": "resumed", "journal": 1, "attempt": 1, "step": step}
    before = [{"event": "state_saved", "step": step}] if saved else []
    late = step if saved else step + (step > 0)
    lines = [*before, *trial(late), REPLY, resumed, *trial(late, attempt=1)]
    run = read_run(write(tmp_path, lines))
    assert [one.at.attempt for one in run.candidates["a"].trials] == [1]
    assert [one.at.attempt for one in run.candidates["a"].checks] == [1]
    assert [one.at.attempt for one in run.empty_replies] == [1]
    assert run.scores()["q", "a"].rollouts == 1
    assert len(run.calls) == 1


@pytest.mark.parametrize("step", [0, 2])
def test_what_was_saved_before_a_resume_counts(step: int, tmp_path: Path) -> None:
    resumed = {"event": "resumed", "journal": 1, "attempt": 1, "step": step}
    run = read_run(write(tmp_path, [*trial(step), {"event": "state_saved", "step": step}, resumed]))
    assert len(run.candidates["a"].trials) == len(run.candidates["a"].checks) == 1
    assert run.candidates["a"].fate == "won its trial"
    assert run.scores()["q", "a"].rollouts == 1


def test_a_run_that_begins_anew_in_a_folder_keeps_the_calls_alone(tmp_path: Path) -> None:
    begins = {"event": "run_begins", "journal": 1, "attempt": 1, "settings": {"seed": 2}}
    told = {"event": "odd"}
    folder = write(tmp_path, [checked("b", "other"), *trial(0), REPLY, told, begins, *trial(0)])
    run = read_run(folder)
    assert list(run.candidates) == ["a"]
    assert len(run.candidates["a"].trials) == len(run.empty_replies) == 1
    assert run.scores()["q", "a"].rollouts == 1
    assert not run.notes
    assert len(run.attempts) == 2
    assert len(run.calls) == 1


def test_a_copy_that_is_refused_does_not_change_what_is_in_use(tmp_path: Path) -> None:
    joined = {"event": "template_joined", "template": "a", "tried": 1, "solved": 1}
    again = checked("a", "one", reason="it equals a candidate that is in use")
    run = read_run(write(tmp_path, [checked("a", "one"), joined, again]))
    assert run.candidates["a"].fate == "in use"
    assert len(run.candidates["a"].checks) == 2


def test_what_was_dropped_and_is_proposed_again_stays_dropped(tmp_path: Path) -> None:
    dropped = {"event": "template_dropped", "template": "a", "tried": 4, "solved": 0}
    run = read_run(write(tmp_path, [checked("a", "one"), dropped, checked("a", "one")]))
    assert run.candidates["a"].fate == "dropped"


def test_templates_that_a_later_search_does_not_choose_are_dropped(tmp_path: Path) -> None:
    pool = [{"id": "a", "kind": "template", "text": "one", "parents": [], "dev_scores": [1.0]}]
    chosen = {"event": "templates_assigned", "dev_questions": ["q"], "pool": pool, "cover": ["a"]}
    none = {"event": "search_skipped", "reason": "0 hard questions"}
    run = read_run(write(tmp_path, [chosen]))
    assert run.candidates["a"].fate == "in use"
    assert run.scores()["q", "a"].mean == 1.0
    run = read_run(write(tmp_path, [chosen, none]))
    assert run.candidates["a"].fate == "dropped"
    assert run.candidates["a"].why == "0 hard questions"


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.99])
def test_half_a_journal_is_read_as_far_as_it_goes(kept: float, tmp_path: Path) -> None:
    folder = run_in(tmp_path, P2O)
    path = folder / "events.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole))])
    if kept:
        run = read_run(folder)
        assert run.damaged == 1
        assert not run.ended
    else:
        with pytest.raises(RunError, match="no event that can be read"):
            read_run(folder)


def test_the_second_half_of_a_journal_is_read_too(tmp_path: Path) -> None:
    folder = run_in(tmp_path, P2O)
    path = folder / "events.jsonl"
    path.write_bytes(path.read_bytes()[path.stat().st_size // 2 :])
    run = read_run(folder)
    assert run.ended
    assert not run.attempts


NAMES = ("reply", "candidate_checked", "candidate_verified", "population_changed", "metrics")
NAMES += ("instruction_weights", "templates_assigned", "template_joined", "rewards", "text")


@pytest.mark.parametrize(
    "event", [*NAMES, "question", "gap", "resumed", "run_refused", "training_ended", "odd"]
)
@pytest.mark.parametrize("value", [None, -1, 1e400, "x", [[]], {"id": []}, True])
def test_fields_of_other_types_stop_nothing(event: str, value: Any, tmp_path: Path) -> None:
    names = "candidate parent request usage population added removed weights means pool cover uses"
    names += " templated untemplated metrics id text question template questions rewards settings"
    fields = dict.fromkeys(names.split(), value)
    extra = {"journal": 1} if event == "resumed" else {}
    read_run(write(tmp_path, [{"event": event, **fields, **extra}, {"event": event, **extra}]))


def test_a_journal_of_another_version_is_refused_by_the_version_that_wrote_it(
    tmp_path: Path,
) -> None:
    noted = {"versions.prompt-coevo": "9.1"}
    header = {"event": "run_begins", "journal": 7, "attempt": 0, "step": 0, "noted": noted}
    (tmp_path / "events.jsonl").write_text(json.dumps(header) + "\n")
    with pytest.raises(RunError, match=r"has format 7, this version reads format 1; .* \(9\.1\)"):
        read_run(tmp_path)


def test_a_folder_without_a_journal_is_left_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no journal"):
        read_run(tmp_path / "none")
    assert not list(tmp_path.iterdir())


def test_a_start_that_was_refused_hides_no_finished_run(tmp_path: Path) -> None:
    folder = run_in(tmp_path, STREAM)
    before = read_run(folder)
    began = next(one for one in events(folder) if one["event"] == "run_begins")
    again = {**began, "attempt": began["attempt"] + 1, "step": 0}
    with (folder / "events.jsonl").open("a") as file:
        file.write(json.dumps(again) + "\n")
        file.write(json.dumps({**again, "event": "preflight"}) + "\n")
    after = read_run(folder)
    assert (after.ended, after.last, after.ending) == (True, before.last, before.ending)
    assert after.candidates.keys() == before.candidates.keys()


def test_a_refused_start_is_told_until_training_begins(tmp_path: Path) -> None:
    refused = {"event": "run_refused", "reason": "no reflection model answers"}
    told = "refused before the first step: no reflection model answers"
    assert read_run(write(tmp_path, [refused])).state == told
    resumed = {"event": "resumed", "journal": FORMAT, "attempt": 1, "step": 3}
    second = [resumed, {**refused, "attempt": 1, "step": 3}]
    told = told.replace(":", " of attempt 1:", 1)
    assert read_run(write(tmp_path, second)).state == told
    for later in ({"event": "metrics", "step": 4}, {**resumed, "attempt": 2}):
        run = read_run(write(tmp_path, [*second, later]))
        assert run.state == "running, or killed"
    assert read_run(write(tmp_path, [{"event": "training_ended"}])).state == "ended"


def test_a_callback_that_is_only_made_changes_no_report(tmp_path: Path) -> None:
    folder = run_in(tmp_path, STREAM)
    before = read_run(folder)
    with (folder / "events.jsonl").open("a") as file:
        chosen = {"time": before.last.time, "event": "reward_chosen", "attempt": 5, "step": 0}
        file.write(json.dumps(chosen) + "\n")
    assert read_run(folder).last == before.last
