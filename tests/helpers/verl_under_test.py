"""Run VeRL's adapter under the kit's laws: a job in the unmodified main_ppo, read from the lines of
`helpers.verl_recorder`.

Stand-ins: platform, rollout server. All runs share a Ray. A real rollout server has one stream of random
numbers, which policy rollouts advance; the stand-in has one for each kind of request, so that a run with
policy rollouts can be compared with one without.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from helpers.ray_cluster import shared_cluster
from helpers.ray_run import Result, read_json_lines
from helpers.trl_world import TASKS, rows
from helpers.verl_run import VERL_SETTINGS, VerlRun
from helpers.verl_world import TOKENIZER
from helpers.warm_python import MODULES
from prompt_coevo import errors
from prompt_coevo.testing.adapter import (
    Capability,
    Evaluated,
    Job,
    LogProbs,
    Material,
    Record,
    Sampled,
    Scored,
    Trained,
)
from standins.sampling import Request, log_probs, sample
from worlds.pairs.world import base_policy_path

TEMPERATURE = 0.8
LENGTH = 12
_SETTINGS = {
    **VERL_SETTINGS,
    "VERL_USE_EXTERNAL_MODULES": "standins.verl.plugin,helpers.verl_recorder",
}
_IMPORTED = (
    *MODULES,
    "msgspec",
    "prompt_coevo.engine.coevolution",
    "prompt_coevo.testing.adapter",
    "zmq",
)
_EOS, _PAD = TOKENIZER.eos_token_id, TOKENIZER.pad_token_id


class VerlUnderTest:
    """Implement `prompt_coevo.testing.adapter.AdapterUnderTest` for the synchronous PPO trainer."""

    lacks: Mapping[Capability, str] = {
        "late rollouts": "the synchronous trainer waits until a round is back",
        "rollouts in parts": "the replay buffer hands on whole groups only",
        "steps in checkpoints": "VeRL saves before the next step begins, when a step's end is told",
        "ranks": "the trainer that plans is one process, however many workers train and sample for it",
    }
    material = Material(
        rows(TASKS[:4]),
        texts=("please note .", "always remember .", "now carefully ."),
        long_text=" ".join(["dax means reverse . wug means rotate ."] * 3),
    )

    def encode(self, prompt: Any) -> list[int]:
        chat = TOKENIZER.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True)
        return list(chat["input_ids"])

    def run(self, job: Job, folder: Path) -> Record:
        logs = folder / f"run{len(list(folder.glob('run*')))}"
        logs.mkdir()
        (logs / "job.json").write_text(json.dumps(asdict(job), default=str))
        cluster = shared_cluster(_IMPORTED, tuple(_SETTINGS.items()))
        environment = {
            **_SETTINGS,
            "COEVO_TEST_JOB": str(logs / "job.json"),
            "COEVO_TEST_RECORD": str(logs / "record.jsonl"),
        }
        data = _data(job)
        overrides = list(_overrides(job, folder))
        with VerlRun(logs, data, data, overrides, environment, cluster=cluster) as run:
            result = run.wait()
        lines = read_json_lines(logs / "record.jsonl")
        if not any(line["event"] in ("dataset", "killed") for line in lines):
            raise _refusal(result)
        return _Reader(job, folder, logs, result, lines, self.encode).record()

    def edit_state(self, checkpoint: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
        path = checkpoint / "coevo_state.json"
        path.write_text(json.dumps(edit(json.loads(path.read_text()))))


def _data(job: Job) -> list[dict[str, Any]]:
    return [
        {
            "prompt": row["prompt"],
            "ground_truth": row["answer"],
            "id": row["id"],
            "extra_info": {"id": row["id"]},
        }
        for row in job.rows
    ]


def _overrides(job: Job, folder: Path) -> Iterator[str]:
    actor, rollout, ref = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "ref"))
    questions = len(job.rows) // 2
    yield from _coevo(job.settings)
    yield from (
        f"data.train_batch_size={questions}",
        f"data.max_response_length={LENGTH}",
        f"{actor}.ppo_mini_batch_size={questions}",
        f"{actor}.optim.lr=1e-2",
        f"{actor}.use_kl_loss=True",
        f"{ref}.log_prob_micro_batch_size_per_gpu=16",
        f"{rollout}.n={job.group_size}",
        f"{rollout}.temperature={TEMPERATURE}",
        "reward.custom_reward_function.name=by_job",
        f"trainer.total_epochs={job.epochs}",
        f"trainer.default_local_dir={folder}",
        f"trainer.val_before_train={job.evaluates}",
        f"trainer.test_freq={1 if job.evaluates else -1}",
        f"trainer.save_freq={1 if job.saves else -1}",
    )
    for name in ("param_dtype", "reduce_dtype", "buffer_dtype"):
        yield f"+{ref}.fsdp_config.mixed_precision.{name}=fp32"
    if job.resume_from is None:
        yield "trainer.resume_mode=disable"
    else:
        yield from (
            "trainer.resume_mode=resume_path",
            f"trainer.resume_from_path={job.resume_from}",
        )


def _coevo(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings as they are given on the command line."""
    yield "+coevo=stream"  # a choice there must be; the method is the job's
    for name, value in settings.items():
        if name == "plugins":
            for plugin, section in value.items():
                for key, one in section.items():
                    yield f"+coevo.plugins.{plugin}.{key}={_literal(one)}"
        elif isinstance(value, Mapping):
            yield from (f"coevo.{name}.{key}={_literal(one)}" for key, one in value.items())
        else:
            yield f"coevo.{name}={_literal(value)}"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, list):
        return f"[{','.join(map(_literal, value))}]"
    return json.dumps(value)


def _refusal(result: Result) -> Exception:
    """Return the error that ended the run: the last line of an error message or of a traceback."""
    found = re.findall(r"^(?:prompt_coevo\.errors\.)?(\w+Error): (.+)$", result.output, re.M)
    kinds = [(getattr(errors, name), text) for name, text in found if hasattr(errors, name)]
    if kinds:
        kind, text = kinds[-1]
        return kind(text)  # type: ignore[no-any-return]
    return RuntimeError(result.tail)


class _Reader:
    """Build a record from a run's lines, with forward passes by the weights they refer to."""

    def __init__(
        self,
        job: Job,
        folder: Path,
        logs: Path,
        result: Result,
        lines: Sequence[Mapping[str, Any]],
        encode: Callable[[Any], list[int]],
    ) -> None:
        self._job, self._folder, self._logs = job, folder, logs
        self._result, self._lines, self._encode = result, lines, encode

    def record(self) -> Record:
        weights = [line for line in self._lines if line["event"] == "weights"]
        first = [line for line in weights if line["rank"] == 0]
        logged = self._result.metrics
        steps = [step for step, values in logged.items() if "training/epoch" in values]
        epochs = {int(logged[step]["training/epoch"]): step for step in steps}
        return Record(
            journal=read_json_lines(self._folder / "coevo" / "events.jsonl"),
            sampled=sorted(self._sampled, key=lambda row: (row.number, row.prompt_ids, row.text)),
            trained=list(self._trained()),
            scored=[
                Scored(line["id"], line["prompt"], line["text"], line["reward"])
                for line in self._lines
                if line["event"] == "scored"
            ],
            evaluated=list(self._evaluations()),
            updates=[line["updates"] for line in first[1:]],
            epochs=[epochs[epoch] for epoch in sorted(epochs)],
            weights={line["updates"]: line["weights"] for line in first},
            greedy={line["updates"]: self._greedy(line["updates"]) for line in first},
            around_policy=[
                (line["before"], line["after"]) for line in self._lines if line["event"] == "policy"
            ],
            dataset=next((line["rows"] for line in self._lines if line["event"] == "dataset"), ()),
            logged=[logged[step] for step in sorted(logged)],
            checkpoints={
                int(path.name.rpartition("_")[2]): path
                for path in self._folder.glob("global_step_*")
            },
            temperature=TEMPERATURE,
            engines=len({line["process"] for line in self._lines if line["event"] == "engine"}),
            rank_weights=[
                line["weights"] for line in weights if line["updates"] == weights[-1]["updates"]
            ],
        )

    @cached_property
    def _sampled(self) -> list[Sampled]:
        return [row for row, _ in self._rows]

    @cached_property
    def _rows(self) -> list[tuple[Sampled, Mapping[str, Any]]]:
        rows, evaluates = [], False
        for line in self._lines:
            if line["event"] in ("evaluation", "evaluated"):
                evaluates = line["event"] == "evaluation"
            if line["event"] == "sampled":
                ids, trains = line["completion_ids"], not line["validates"]
                row = Sampled(
                    "train" if trains else "evaluate" if evaluates else "policy",
                    line["step"] - 1 if trains else line["updates"],
                    line["prompt_ids"],
                    ids,
                    TOKENIZER.decode(ids, skip_special_tokens=True),
                    line["temperature"],
                )
                rows.append((row, line))
        return rows

    def _evaluations(self) -> Iterator[Evaluated]:
        rows = [row for row in self._sampled if row.moment == "evaluate"]
        for line in self._lines:
            if line["event"] == "evaluation":
                number = line["updates"]
                yield Evaluated(number, [row.prompt_ids for row in rows if row.number == number])

    @cached_property
    def _sampled_with(self) -> dict[tuple[str, int], list[int]]:
        """Return the prompt ids of the training rows, by uid and session."""
        return {
            (line["uid"], line["session"]): line["prompt_ids"]
            for row, line in self._rows
            if row.moment == "train"
        }

    def _trained(self) -> Iterator[Trained]:
        """Yield the rows of the loss: with one update per round, old and new log-probs use the same
        weights."""
        rows = self._result.actor
        for update in sorted({row["global_steps"] for row in rows}):
            mine = [row for row in rows if row["global_steps"] == update]
            forward = {
                number: self._forward(number, [(row["prompts"], row["responses"]) for row in mine])
                for number in (0, update - 1)
            }
            placed = {
                number: self._forward(
                    number,
                    [
                        (self._sampled_with[row["uid"], row["session_id"]], row["responses"])
                        for row in mine
                    ],
                )
                for number in (0, update - 1)
            }
            for place, row in enumerate(mine):
                kept = [n for n, keep in enumerate(row["response_mask"]) if keep]
                yield Trained(
                    update,
                    row["input_ids"],
                    [len(row["prompts"]) + n for n in kept],
                    {
                        name: LogProbs(
                            used=[row[column][n] for n in kept],
                            forward=[forward[number][place][n] for n in kept],
                            placed=[placed[number][place][n] for n in kept],
                        )
                        for name, column, number in (
                            ("new", "log_probs", update - 1),
                            ("old", "old_log_probs", update - 1),
                            ("reference", "ref_log_prob", 0),
                        )
                    },
                )

    def _forward(
        self, update: int, rows: Sequence[tuple[list[int], list[int]]]
    ) -> list[list[float]]:
        """Return log-probs of completions after their prompts, by the weights after this many updates."""
        prompts, completions = zip(*rows, strict=True)
        temperatures = [TEMPERATURE] * len(rows)
        return log_probs(self._model(update), prompts, completions, temperatures, _PAD)

    def _greedy(self, update: int) -> dict[str, str]:
        requests = [
            Request(self._encode(row["prompt"]), LENGTH, 0.0, seed=0) for row in self._job.rows
        ]
        answers = sample(self._model(update), requests, _EOS, _PAD)
        texts = [TOKENIZER.decode(ids, skip_special_tokens=True) for ids, _ in answers]
        return {row["id"]: text for row, text in zip(self._job.rows, texts, strict=True)}

    def _model(self, update: int) -> Any:
        if update not in self._models:
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(base_policy_path()))
            path = self._logs / f"weights-{update}.pt"
            if path.exists():
                model.load_state_dict(torch.load(path))
            else:
                model = AutoModelForCausalLM.from_pretrained(base_policy_path())
            self._models[update] = model.float().eval()
        return self._models[update]

    @cached_property
    def _models(self) -> dict[int, Any]:
        return {}
