"""Check the line that a user adds: its settings in every form, and its numbers in the trainer's log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trl

from helpers.trl_runs import EPOCHS, know_all
from helpers.trl_world import score
from prompt_coevo.adapters.trl import CoevoCallback, attach
from prompt_coevo.adapters.trl.contract import check_names
from prompt_coevo.errors import HostError, SettingsError
from prompt_coevo.settings import Settings

OWN = {"question_id_column": "id", "preflight": {"reflection": False}}


def test_keywords_are_settings(make_trainer: Any) -> None:
    callback = attach(make_trainer(), reflection="openai/gpt-5", seed=7, **OWN)
    settings = callback.engine.settings
    assert settings.reflection.model == "openai/gpt-5"
    assert settings.seed == 7


def test_the_callback_takes_them_too(make_trainer: Any) -> None:
    trainer = make_trainer()
    callback = CoevoCallback(trainer, OWN, reflection="openai/gpt-5")
    assert callback.engine.settings.reflection.model == "openai/gpt-5"


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_is_a_file_of_settings(make_trainer: Any, tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "coevo.yaml"
    path.write_text(json.dumps({**OWN, "reflection": "openai/gpt-5", "seed": 3}))  # JSON is YAML
    callback = attach(make_trainer(), kind(path), seed=7)
    settings = callback.engine.settings
    assert (settings.reflection.model, settings.seed) == ("openai/gpt-5", 7)


@pytest.mark.parametrize(
    ("given", "values", "said"),
    [
        (Settings(reflection="openai/gpt-5"), {"seed": 1}, "seed cannot be set beside a Settings"),
        ({"seed": 1}, {"seed": 2}, "seed is given twice, as a keyword too"),
        (3, {}, "settings must be names and values or the path of a file, but are a int"),
        ("no-such-file.toml", {}, "the settings file no-such-file.toml cannot be read"),
        (None, {"method": "p2o"}, "unknown setting method; did you mean algorithms?"),
        (None, {"model": "openai/gpt-5"}, "unknown setting model; did you mean reflection.model?"),
        (None, {"reflection": "sk-abcdefgh1234567890abcd"}, "reflection is a section"),
        ("openai/gpt-5", {}, 'write reflection="openai/gpt-5"'),
        ("sk-abcdefgh1234567890abcd", {}, 'write reflection="openai/gpt-5"'),
        (None, {"reflection": "gpt-5"}, 'with its provider: reflection = "openai/gpt-5"'),
        (None, {"reflection": str.upper}, "for example {'function': that function}"),
        (None, {"algorithms": "both"}, 'here, write "inspo,stream"'),
        (None, {"reflection": "0f9e8d7c6b5a49382716f5e4d3c2b1a0"}, "reflection is a section"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    make_trainer: Any, given: Any, values: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        attach(make_trainer(), given, **values)
    assert said in str(refused.value)
    assert "sk-abc" not in str(refused.value)


def test_a_callback_among_the_trainers_own(make_trainer: Any) -> None:
    """Made before the trainer, or by the trainer."""
    with pytest.raises(HostError, match=r"cannot be among the trainer's own callbacks=\[\.\.\.\]"):
        make_trainer(trainer_arguments={"callbacks": [CoevoCallback(reflection="openai/gpt-5")]})
    with pytest.raises(HostError, match="build the trainer first, then call attach"):
        CoevoCallback({"reflection": "openai/gpt-5"})
    with pytest.raises(HostError, match="build the trainer first, then call attach"):
        make_trainer(trainer_arguments={"callbacks": [CoevoCallback]})


def test_another_librarys_class_is_named_with_its_module(make_trainer: Any) -> None:
    class GRPOTrainer:
        pass

    GRPOTrainer.__module__ = "verifiers.trainer"
    with pytest.raises(HostError, match=r"not with verifiers\.trainer\.GRPOTrainer"):
        attach(GRPOTrainer(), OWN)


def test_a_class_that_took_trls_place_since_is_trls(
    make_trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unsloth rewrites `trl.GRPOTrainer`; it need not be imported before our adapter."""
    trainer = make_trainer()
    kind = type(trainer)
    copy = type("UnslothGRPOTrainer", kind.__bases__, dict(kind.__dict__))
    monkeypatch.setattr(trl, "GRPOTrainer", copy)
    trainer.__class__ = copy
    attach(trainer, reflection="openai/gpt-5", **OWN)
    check_names(trainer)
    del trainer.rollout_func  # which RLOOTrainer has not
    with pytest.raises(HostError, match="has no rollout_func"):
        check_names(trainer)


def test_totals_in_the_log_are_totals(make_trainer: Any) -> None:
    """TRL logs the mean over `logging_steps`, which is meaningless for a total."""
    trainer = make_trainer(**{**EPOCHS, "num_train_epochs": 2, "logging_steps": 4}, dataset=None)
    trainer.reward_funcs[0] = score
    settings = {**OWN, "stream": {"tau": 2.0}, "reflection": {"function": know_all}}
    callback = attach(trainer, settings)
    told: list[dict[str, float]] = []
    step_end = callback.on_step_end

    def watched(*args: Any, **kwargs: Any) -> None:
        step_end(*args, **kwargs)
        told.append(callback.engine.metrics())

    callback.on_step_end = watched
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "coevo/train_rollouts" in entry]
    assert [entry["step"] for entry in logged] == [4, 8]
    for entry, those in zip(logged, (told[:4], told[4:]), strict=True):
        for total in ("coevo/train_rollouts", "coevo/hard_samples"):
            assert entry[total] == those[-1][total]
        shares = [one["coevo/templated_fraction"] for one in those]
        assert entry["coevo/templated_fraction"] == pytest.approx(sum(shares) / 4)
    assert len({one["coevo/templated_fraction"] for one in told}) > 1
