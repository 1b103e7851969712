"""Run OpenRLHF's adapter under the kit's laws: the unmodified `train_ppo_ray` on the stand-ins.

Events come from the stand-ins' logs (in place of vLLM and the loss) and from `helpers.openrlhf_facts`,
which sits in OpenRLHF's classes below the adapter. Log-probs and greedy answers to compare with are
computed here, with the weights that the actor had.
"""

from __future__ import annotations

import copy
import functools
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from helpers.openrlhf_facts import REFUSED, install
from helpers.openrlhf_run import TASKS, OpenRLHFRun
from helpers.ray_run import Result, read_json_lines
from helpers.trl_world import rows as chats
from helpers.verl_world import TOKENIZER
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
from worlds.pairs.world import base_policy_path

Weights = dict[str, torch.Tensor]
Event = dict[str, Any]

NEW_TOKENS = 6
_SAME = 1e-4
"""How far equal weights of two runs are apart at most: sums are taken in another order. An update is by far
larger."""


class OpenRLHFUnderTest:
    """Implement `prompt_coevo.testing.adapter.AdapterUnderTest`."""

    lacks: Mapping[Capability, str] = {
        "late rollouts": "a generation waits for all of its rollouts, the asynchronous trainer's too",
        "rollouts in parts": "the responses to a question come back as one list",
        "steps in checkpoints": "OpenRLHF saves before it generates again, when a step's end can be told",
        "rewards of none": "OpenRLHF cannot train on a batch in which a reward is missing",
        "failing rewards": "the reward's process is not told what a rollout is for",
    }

    def __init__(self, *flags: str) -> None:
        self._flags = flags
        self.material = Material(
            chats(TASKS[:4]),
            texts=("please note .", "always remember .", "now carefully ."),
            long_text=" ".join(["dax means reverse . wug means rotate ."] * 3),
        )
        self._known: list[Weights] = []

    def encode(self, prompt: Any) -> list[int]:
        return list(TOKENIZER(_rendered(prompt), add_special_tokens=False)["input_ids"])

    def run(self, job: Job, folder: Path) -> Record:
        start = _start_of(job)
        if job.resume_from is not None:
            _put_back(job.resume_from, folder)
        (folder / "rules.json").write_text(json.dumps(dict(job.rewards)))
        data = [
            {"input": row["prompt"], "label": row["id"], "id": row["id"], "answer": row["answer"]}
            for row in job.rows
        ]
        running = OpenRLHFRun(
            folder,
            train=data,
            val=data if job.evaluates else None,
            module="prompt_coevo.adapters.openrlhf",
            overrides=[*_flags(job), *_as_flags("--coevo.", job.settings), *self._flags],
            env={
                "COEVO_TEST_INSTALL": f"{install.__module__}:{install.__name__}",
                "COEVO_TEST_SEED": "1",
                "COEVO_TEST_REWARD_RULES": str(folder / "rules.json"),
                "COEVO_TEST_SCORED": str(folder / "scored.jsonl"),
                # The stand-in counts the weights from its start.
                **({"COEVO_TEST_FIRST_VERSION": str(start - 1)} if start else {}),
            },
        )
        (folder / "scored.jsonl").unlink(missing_ok=True)
        with running:
            if job.stop_after is None:
                result = running.wait()
            else:
                latest = folder / "checkpoints" / "_actor" / "latest"
                last = f"global_step{job.stop_after}"
                result = running.kill_when(lambda _: _text(latest) == last)
        if result.returncode and job.stop_after is None:
            raise _refusal(running.logs, result)
        return self._record(job, folder, running.logs, result)

    def edit_state(self, checkpoint: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
        for path in checkpoint.glob("*model_states.pt"):
            saved = torch.load(path, weights_only=False)
            ours = saved["data_loader_state_dict"]["prompt_coevo"]
            ours["engine"] = edit(ours["engine"])
            torch.save(saved, path)

    # Events

    def _record(self, job: Job, folder: Path, logs: Path, result: Result) -> Record:
        weights = {0: _first_weights()} if not _start_of(job) else {}
        weights |= {
            int(path.stem.partition("-")[0]): torch.load(path)
            for path in (logs / "weights").glob("*-0.pt")
        }
        journal = folder / "checkpoints" / "coevo" / "events.jsonl"
        return Record(
            journal=read_json_lines(journal),
            sampled=_sampled(result),
            trained=list(_trained(result, weights)),
            scored=_scored(job, folder),
            evaluated=_evaluated(result),
            updates=[e["update"] for e in _named(result, "updated") if e["rank"] == 0],
            epochs=_epochs(job, result),
            weights={update: self._name_of(found) for update, found in weights.items()},
            greedy={update: _greedy(found, job.rows) for update, found in weights.items()},
            around_policy=list(_around_policy(result)),
            dataset=_dataset(job, result),
            logged=[
                {name.removeprefix("train/"): value for name, value in line["data"].items()}
                for line in read_json_lines(logs / "metrics.jsonl")
            ],
            checkpoints={
                int(path.name.removeprefix("global_step")): path
                for path in (folder / "checkpoints" / "_actor").glob("global_step*")
            },
            engines=len({event["process"] for event in _named(result, "engine_built")}),
            rank_weights=[
                self._name_of(torch.load(path))
                for path in sorted((logs / "weights").glob(f"{max(weights)}-*.pt"))
            ],
        )

    def _name_of(self, weights: Weights) -> str:
        for number, known in enumerate(self._known):
            if all(float((known[n] - weights[n]).abs().max()) < _SAME for n in known):
                return f"weights {number}"
        self._known.append(weights)
        return f"weights {len(self._known) - 1}"


def _flags(job: Job) -> list[str]:
    questions, size = len(job.rows) // 2, job.group_size
    flags = [
        f"--reward.remote_url={Path(__file__).with_name('openrlhf_law_reward.py')}",
        "--coevo.ground_truth_column=answer",
        f"--train.num_episodes={job.epochs}",
        f"--rollout.max_new_tokens={NEW_TOKENS}",
        f"--rollout.batch_size={questions}",
        f"--rollout.n_samples_per_prompt={size}",
        f"--train.batch_size={questions * size}",
        f"--rollout.micro_batch_size={questions * size // job.ranks}",
        f"--train.micro_batch_size={questions * size // job.ranks}",
        f"--actor.num_gpus_per_node={job.ranks}",
        "--actor.adam.lr=1e-2",
        "--actor.adam.eps=1e-3",  # otherwise Adam would amplify rounding errors to a step
        "--algo.advantage.is_correction_level=token",
        *("--eval.temperature=0.5", "--eval.n_samples_per_prompt=1", "--ckpt.best_metric_key=none"),
    ]
    if job.evaluates:
        flags.append("--eval.steps=1")
    if job.saves:
        flags += ["--ckpt.save_steps=1", "--ckpt.max_num=100"]
    return flags


def _as_flags(prefix: str, settings: Mapping[str, Any]) -> list[str]:
    """Return a job's settings as a user gives them to OpenRLHF."""
    flags: list[str] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flags += _as_flags(f"{prefix}{name}.", value)
        else:
            values = value if isinstance(value, list | tuple) else [value]
            flags += [f"{prefix}{name}", *map(str, values)]
    return flags


def _start_of(job: Job) -> int:
    """Return the number of updates before a run begins."""
    return 0 if job.resume_from is None else int(job.resume_from.name.removeprefix("global_step"))


def _put_back(checkpoint: Path, folder: Path) -> None:
    """Make a run in this folder resume from the checkpoint, as a user would."""
    actor = folder / "checkpoints" / "_actor"
    if checkpoint.parent != actor:
        shutil.copytree(checkpoint, actor / checkpoint.name)
    (actor / "latest").write_text(checkpoint.name)


def _refusal(logs: Path, result: Result) -> Exception:
    """Return our error that ended a run, or one with the end of its output."""
    told = re.search(r"^error: (.*)\Z", result.output, re.DOTALL | re.MULTILINE)
    if told:
        return errors.HostError(told[1].strip())
    found = re.search(
        r".*^(?:\S*\.)?errors\.(\w+): (.*)\Z", _text(logs / REFUSED), re.DOTALL | re.MULTILINE
    )
    if found is None:
        return RuntimeError(f"the run ended with {result.returncode}:\n{result.tail}")
    error: Exception = getattr(errors, found[1])(found[2].strip())
    return error


def _named(result: Result, name: str) -> list[Event]:
    return [event for event in result.server if event["event"] == name]


def _sampled(result: Result) -> list[Sampled]:
    """Return the generated responses in a canonical order: batching depends on how busy the machine is."""
    rows = [
        Sampled(
            event["moment"],
            event["round"] if event["moment"] == "train" else event["version"],
            event["prompt_ids"],
            event["response_ids"],
            TOKENIZER.decode(event["response_ids"], skip_special_tokens=True),
            event["temperature"],
        )
        for event in result.generated()
    ]
    return sorted(
        rows, key=lambda row: (row.moment, row.number, row.prompt_ids, row.completion_ids)
    )


def _evaluated(result: Result) -> list[Evaluated]:
    found: dict[int, list[list[int]]] = {}
    for row in _sampled(result):
        if row.moment == "evaluate":
            found.setdefault(row.number, []).append(list(row.prompt_ids))
    return [Evaluated(update, prompts) for update, prompts in found.items()]


def _scored(job: Job, folder: Path) -> list[Scored]:
    """Return the reward function's inputs; a prompt of no question stays a text."""
    chats_of = {_rendered(row["prompt"]): row["prompt"] for row in job.rows}
    return [
        Scored(**{**call, "prompt": chats_of.get(call["prompt"], call["prompt"])})
        for call in read_json_lines(folder / "scored.jsonl")
    ]


def _epochs(job: Job, result: Result) -> list[int]:
    """Return the updates at which epochs end. At an even batch count OpenRLHF draws once more."""
    updates, epochs = _start_of(job), []
    for event in result.server:
        if event["event"] == "updated":
            updates = event["update"]
        elif event["event"] == "exhausted":
            epochs.append(updates + event["trains"])
    return epochs


def _dataset(job: Job, result: Result) -> list[Any]:
    """Return the rows of OpenRLHF's dataset at the end of an epoch."""
    seen = _named(result, "exhausted")
    if not seen:
        return []
    chats_of = {_rendered(row["prompt"]): row["prompt"] for row in job.rows}
    answers = {row["id"]: row["answer"] for row in job.rows}
    return [
        {"id": label, "prompt": chats_of.get(prompt, prompt), "answer": answers[label]}
        for prompt, label in seen[-1]["rows"]
    ]


def _around_policy(result: Result) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    weights, mode, before = "", "awake", None
    for event in result.server:
        if event["event"] == "weights":
            weights = f"{event['version']}: {event['checksum']}"
        elif event["event"] in ("sleep", "wake"):
            mode = f"{event['event']} {event.get('tags')}"
        elif event["event"] == "policy_begins":
            before = {**event["host"], "weights": weights, "mode": mode}
        elif event["event"] == "policy_ended" and before is not None:
            yield before, {**event["host"], "weights": weights, "mode": mode}


def _trained(result: Result, weights: Mapping[int, Weights]) -> Iterator[Trained]:
    """Yield each row of the loss, next to forward passes with the weights of its round."""
    for row in result.actor:
        update, ids = row["step"], row["sequences"]
        positions = [place for place, kept in enumerate(row["action_mask"], 1) if kept]
        start = positions[0] if positions else len(ids)
        prompt = _asked(result, row, ids[start:])
        log_probs = {}
        for name, column, by in (
            ("new", "log_probs", weights[update - 1]),
            ("old", "action_log_probs", weights[update - 1]),
            ("reference", "base_action_log_probs", _first_weights()),
            ("sampler", "rollout_log_probs", weights[update - 1]),
        ):
            if row[column] is not None:
                # The sampler may not end at once, so its first log-prob is another one.
                places = positions[name == "sampler" :]
                shift = len(prompt) - start
                forward = _log_probs(by, ids)
                placed = _log_probs(by, prompt + ids[start:], len(prompt))
                log_probs[name] = LogProbs(
                    used=[row[column][place - 1] for place in places],
                    forward=[forward[place - 1] for place in places],
                    placed=[placed[place + shift - 1] for place in places],
                )
        beyond = [len(ids)] * row["actions_in_padding"]
        yield Trained(update, ids, [*positions, *beyond], log_probs)


def _asked(result: Result, row: Event, completion: list[int]) -> list[int]:
    """Return the prompt that a completion was sampled with; of several, the one with matching log-probs."""
    found: list[Event] = [
        event
        for event in result.generated()
        if (event["moment"], event["version"]) == ("train", row["step"] - 1)
        and event["response_ids"] == completion
    ]
    if not found:
        return list(row["sequences"][: len(row["sequences"]) - len(completion)])
    old = row["action_log_probs"][-len(completion) :]

    def off(event: Event) -> float:
        return sum(abs(a - b) for a, b in zip(event["log_probs"], old, strict=True))

    return list(min(found, key=off)["prompt_ids"])


# The policy with given weights


@functools.cache
def _model() -> Any:
    return AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32).eval()


@functools.cache
def _first_weights() -> Weights:
    return copy.deepcopy(_model().state_dict())


def _logits(weights: Weights, ids: Sequence[int]) -> torch.Tensor:
    """Return the logits after each token, (L, V)."""
    _model().load_state_dict(weights)
    with torch.no_grad():
        logits: torch.Tensor = _model()(torch.tensor([ids])).logits[0].float()
    return logits


def _log_probs(weights: Weights, ids: Sequence[int], begins: int | None = None) -> list[float]:
    """Return log-probs of all tokens but the first. vLLM may not end a completion at its first token."""
    logits = _logits(weights, ids)
    if begins is not None:
        logits[begins - 1, TOKENIZER.eos_token_id] = -torch.inf
    log_softmax = logits[:-1].log_softmax(-1)
    values: list[float] = log_softmax.gather(-1, torch.tensor(ids)[1:, None])[:, 0].tolist()
    return values


def _greedy(weights: Weights, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the greedy answer to each question; its first token is never the end token."""
    texts = {}
    for row in rows:
        prompt = list(TOKENIZER(_rendered(row["prompt"]), add_special_tokens=False)["input_ids"])
        ids: list[int] = []
        while len(ids) < NEW_TOKENS and TOKENIZER.eos_token_id not in ids:
            logits = _logits(weights, prompt + ids)[-1]
            if not ids:
                logits[TOKENIZER.eos_token_id] = -torch.inf
            ids.append(int(logits.argmax()))
        texts[row["id"]] = TOKENIZER.decode(ids, skip_special_tokens=True)
    return texts


def _rendered(prompt: Any) -> str:
    return str(TOKENIZER.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True))


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
