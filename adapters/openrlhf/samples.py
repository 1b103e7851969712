"""OpenRLHF's sample generator with the engine in it; both trainers generate everything through it."""

from __future__ import annotations

import copy
import logging
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

import ray
import torch
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from openrlhf.trainer.ray.vllm_engine import batch_vllm_engine_call
from transformers import AutoConfig

from prompt_coevo.adapters.openrlhf.dataset import CoevoPromptDataset
from prompt_coevo.adapters.openrlhf.distillation import check_prompt, with_prompt
from prompt_coevo.adapters.openrlhf.loader import StatefulPrompts
from prompt_coevo.adapters.openrlhf.progress import Progress
from prompt_coevo.adapters.openrlhf.resolved import settings_of
from prompt_coevo.adapters.openrlhf.responses import TAG, TOOL_ERROR, join
from prompt_coevo.adapters.openrlhf.rollouts import OpenRLHFPolicy
from prompt_coevo.doors.length_gate import LONGEST_LOOKED_AT, PromptLengthGate, PromptLimit
from prompt_coevo.doors.vocabulary_gate import VocabularyGate
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import HostError
from prompt_coevo.markers import PROJECT
from prompt_coevo.placement import Prompt
from prompt_coevo.tokens import encode, vocabulary_size
from prompt_coevo.types import Assignment, PolicyVersion, Rollout

logger = logging.getLogger(PROJECT)

DISTILLED: Final = "coevo_distilled"
"""The entry of an Experience's info that says which rows were sampled under a template."""


class CoevoSamplesGenerator(SamplesGenerator):
    """Plans where prompts are dispatched, distils and observes where responses come back."""

    def __init__(
        self,
        strategy: Any,
        prompts_dataloader: Any,
        eval_dataloader: Any,
        tokenizer: Any,
        vllm_engines: Any,
    ) -> None:
        super().__init__(strategy, prompts_dataloader, eval_dataloader, tokenizer, vllm_engines)
        settings = settings_of(self.args.coevo)
        self._dataset: CoevoPromptDataset = prompts_dataloader.dataset
        # A group's responses come one by one, and share their prompts.
        self._ids = lru_cache(maxsize=1024)(partial(encode, tokenizer))
        self._questions = self._dataset.questions(settings)
        self._placement = settings.placement.build()
        # A copy, because proposers count in the background while the generator tokenises.
        read = partial(encode, copy.deepcopy(tokenizer))
        self.engine = Coevolution.from_settings(
            settings,
            output_dir=Path(self.args.ckpt.path),
            count_tokens=lambda text: len(read(text)),
            initial_policy=self.args.actor.model_name_or_path,
            system_message=self._questions.shared_system_message,
            plugins={
                "openrlhf_length_gate": self._length_gate(),
                "openrlhf_vocabulary_gate": VocabularyGate(read, self._vocabulary_size()),
            },
        )
        # Prompts that may be exchanged later are looked at from the first batch on.
        self._checks_prompts = self.engine.may_distil
        if self._checks_prompts:
            self._check_questions()
        self._policy = OpenRLHFPolicy(self, self._questions, lambda: self.engine.policy_version)
        self._progress = Progress()
        self._has_begun = self._evaluates = self._generates = self._counts_unknown = False
        self._under_way: dict[tuple[int, int], list[Assignment]] = {}
        self._observed: list[Rollout] = []
        self._generate_kwargs: dict[str, Any] = {}
        self.prompts_dataloader = StatefulPrompts(
            prompts_dataloader, self._state, self._load, self.engine.metrics
        )

    # Moments

    def generate_samples(self, **generate_kwargs: Any) -> Any:
        """A batch to train on; before it, what is due since the last one.

        The last generation of a run may be empty. Nothing is due then: `finish` comes next.
        """
        self._generate_kwargs = generate_kwargs
        if self._has_batch_left():
            self._between_steps()
        result = super().generate_samples(**generate_kwargs)
        samples, _, prompts, exhausted = result
        self._progress.generated(prompts=prompts, trained=bool(samples), exhausted=exhausted)
        return result

    def _has_batch_left(self) -> bool:
        """Whether samples of an earlier generation will do, so that nothing is dispatched."""
        left = getattr(self, "_sample_buffer", None) or []
        size = self.args.rollout.batch_size * self.args.rollout.n_samples_per_prompt
        return bool(left) and (len(left) >= size or self._dataloader_iter is None)

    def generate_eval_samples(self, **generate_kwargs: Any) -> Any:
        """OpenRLHF's evaluation, under the best instruction if there is one."""
        self._evaluates = True
        try:
            return super().generate_eval_samples(**generate_kwargs)
        finally:
            self._evaluates = False

    def finish(self) -> None:
        """Training is over."""
        if self._progress.step_due:
            self.engine.step_end(self._policy, last=True)
            self._progress.step_due = False
        self.engine.end(self._policy)

    def _between_steps(self) -> None:
        due = self._progress
        if not self._has_begun:
            self.engine.begin(self._policy)
            self._has_begun = True
        if due.step_due:
            self.engine.step_end(self._policy)
            due.step_due = False
        if due.epoch_due:
            self.engine.epoch_end(self._policy)
            due.epoch_due = False

    # The wrapped parts of a generation

    def _generate_vllm(
        self, dataloader_iter: Any, num_prompts: int, dynamic_filtering: Any, **kwargs: Any
    ) -> Any:
        self._generates = True
        try:
            result = super()._generate_vllm(
                dataloader_iter, num_prompts, dynamic_filtering, **kwargs
            )
        finally:
            self._generates = False
        if self._observed:
            # Responses come back in any order, and decisions must not depend on it.
            self._observed.sort(
                key=lambda one: (one.assignment.round, one.assignment.group, one.assignment.member)
            )
            self.engine.observe(self._observed)
            self._observed = []
        self._under_way.clear()
        return result

    def _dispatch_prompts_to_vllm(
        self, prompts: Sequence[str], labels: Sequence[Any], *, images: Any = None, **kwargs: Any
    ) -> Any:
        if self._evaluates:
            return self._dispatch_evaluation(prompts, labels, images=images, **kwargs)
        self._between_steps()
        size = kwargs.get("n_samples_per_prompt", self.args.rollout.n_samples_per_prompt)
        rows = [self._dataset.raw(*pair) for pair in zip(prompts, labels, strict=True)]
        plan = self.engine.plan(self._questions.ids_of(rows), size)
        groups = []
        for number, row in enumerate(rows):
            group = plan[number * size : (number + 1) * size]
            self._under_way[group[0].round, group[0].group] = group
            chat = self._dataset.prompt(row)
            by_prompt: defaultdict[str, list[Any]] = defaultdict(list)
            for one in group:
                placed = one.rollout_prompt(chat)
                # What OpenRLHF rendered is taken as it is.
                text = prompts[number] if placed == chat else self._dataset.render(placed)
                by_prompt[text].append((one.round, one.group, one.member))
            groups.append((labels[number], by_prompt))
        return self._dispatch_groups(groups, kwargs)

    def _dispatch_evaluation(
        self, prompts: Sequence[str], labels: Sequence[Any], *, images: Any = None, **kwargs: Any
    ) -> Any:
        instruction = self.engine.evaluation_instruction()
        if instruction is None:
            return super()._dispatch_prompts_to_vllm(prompts, labels, images=images, **kwargs)
        dataset: CoevoPromptDataset = self.eval_dataloader.dataset
        size = kwargs.get("n_samples_per_prompt", self.args.rollout.n_samples_per_prompt)
        groups = []
        for prompt, label in zip(prompts, labels, strict=True):
            chat = dataset.prompt(dataset.raw(prompt, label))
            placed = dataset.render(self._placement.place(chat, instruction.text, None))
            groups.append((label, {placed: [(prompt,)] * size}))
        return self._dispatch_groups(groups, kwargs)

    def _dispatch_groups(self, groups: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """One reference per group, whatever number of prompts it has: groups must stay together."""
        wanted = [
            (number, text, label, len(tags))
            for number, (label, by_prompt) in enumerate(groups)
            for text, tags in by_prompt.items()
        ]
        references: dict[tuple[int, str], Any] = {}
        for count in sorted({one[3] for one in wanted}):
            same = [one for one in wanted if one[3] == count]
            found = super()._dispatch_prompts_to_vllm(
                [one[1] for one in same],
                [one[2] for one in same],
                **{**kwargs, "n_samples_per_prompt": count},
            )
            references.update({one[:2]: ref for one, ref in zip(same, found, strict=True)})
        return [
            join.remote(list(by_prompt.values()), *[references[number, text] for text in by_prompt])
            for number, (_, by_prompt) in enumerate(groups)
        ]

    def _process_response_into_experience(self, response: Any, **kwargs: Any) -> Any:
        tag = response.pop(TAG, None)
        if self._evaluates:  # it finds its data sources by the prompt
            original = {"prompt": tag[0]} if tag else {}
            return super()._process_response_into_experience({**response, **original}, **kwargs)
        if tag is None:
            raise HostError(
                "OpenRLHF dispatched prompts in a way that this version of prompt_coevo does not know; "
                "install openrlhf==0.11.2"
            )
        number, group, member = tag
        assignment = self._under_way[number, group][member]
        self._observed.append(self.scored(assignment, response, self.engine.policy_version))
        if response.get("reward") is None:
            raise HostError(
                "a rollout of the training batch has no reward: the reward function or server failed "
                "(its error is in the log of the vLLM actor), and OpenRLHF cannot train on a batch with "
                "missing rewards; let it answer with a number instead"
            )
        if assignment.distilled:
            response = self._distilled(response, assignment)
        elif self._checks_prompts:
            check_prompt(response, self._ids(response["prompt"]))
        experience = super()._process_response_into_experience(response, **kwargs)
        experience.info[DISTILLED] = torch.tensor([float(assignment.distilled)])
        return experience

    def _distilled(self, response: Any, assignment: Assignment) -> dict[str, Any]:
        chat = self._questions.question(assignment.question_id).prompt
        trained = self._dataset.render(assignment.train_prompt(chat))
        return with_prompt(response, self._ids(response["prompt"]), trained, self._ids(trained))

    # For the policy

    def sample(
        self, prompts: Sequence[Prompt], labels: Sequence[Any], temperature: float | None
    ) -> list[Any]:
        """One response per prompt outside training; None for one that failed."""
        kwargs = {**self._generate_kwargs, "n_samples_per_prompt": 1}
        if temperature is not None:
            kwargs["temperature"] = temperature
        with self._awake():
            references = super()._dispatch_prompts_to_vllm(
                [self._dataset.render(prompt) for prompt in prompts], list(labels), **kwargs
            )
            return [_result(reference) for reference in references]

    def label(self, question_id: str) -> Any:
        """The label of a question's row."""
        return self._dataset.label(self._questions.row(question_id))

    def scored(self, assignment: Assignment, response: Any, version: PolicyVersion) -> Rollout:
        """A response as a rollout of the engine."""
        if response is None:
            return Rollout(assignment, "", math.nan, "aborted", version)
        ranges = response["action_ranges"]
        start = ranges[0][0] if ranges else len(response["observation_tokens"])
        text = self.tokenizer.decode(
            response["observation_tokens"][start:], skip_special_tokens=True
        )
        given = response.get("reward")
        # A number, a tensor, or, from a reward server, a list.
        reward = math.nan if given is None else float(torch.as_tensor(given).flatten()[0])
        failed = float((response.get("extra_logs") or {}).get(TOOL_ERROR, 0.0)) > 0
        reported = "tool_error" if failed else None
        return Rollout.scored(assignment, text, reward, version, reported)

    @contextmanager
    def _awake(self) -> Iterator[None]:
        if self._generates or not self.args.vllm.enable_sleep:
            yield
            return
        batch_vllm_engine_call(self.vllm_engines, "wake_up")
        try:
            yield
        finally:
            batch_vllm_engine_call(self.vllm_engines, "sleep")

    # State

    def _state(self) -> dict[str, Any] | None:
        """For the checkpoint after the batch that was handed over last, if there may be one."""
        if not self._may_be_saved():
            return None
        return {"engine": self.engine.state_dict(), "progress": self._progress.to_json()}

    def _may_be_saved(self) -> bool:
        """After saving steps, after evaluations, and after any batch if these may be later than it."""
        evaluates = self.eval_dataloader is not None
        if self._counts_unknown:
            return True
        if evaluates and self.args.train.async_enable and math.isfinite(self.args.eval.steps):
            return True
        steps = [self.args.ckpt.save_steps, *([self.args.eval.steps] if evaluates else [])]
        return not all(self._progress.batches % step for step in steps)

    def _load(self, state: dict[str, Any] | None) -> None:
        if state is None:
            self._counts_unknown = True
            logger.warning("the checkpoint has no state of prompt_coevo: co-evolution starts anew")
            return
        self._progress = Progress(**state["progress"])
        self.engine.load_state_dict(state["engine"], where="the checkpoint's data loader state")

    # Gates

    def _length_gate(self) -> PromptLengthGate:
        """OpenRLHF cuts a longer prompt off at the left with a warning, and the instruction goes first."""
        return PromptLengthGate(
            self._questions,
            self._placement,
            PromptLimit(
                self._longest, lambda: self._prompt_limit, "--data.max_len leaves room for"
            ),
            count_tokens=lambda text: len(encode(self.tokenizer, text)),
        )

    @property
    def _prompt_limit(self) -> int:
        return int(self.args.data.max_len - (self.args.rollout.max_new_tokens or 1))

    def _longest(self, prompts: Sequence[Prompt]) -> int:
        return max(len(encode(self.tokenizer, self._dataset.render(prompt))) for prompt in prompts)

    def _check_questions(self) -> None:
        """A prompt that is cut off cannot be exchanged for another one."""
        needed = self._longest(self._questions.longest_prompts(LONGEST_LOOKED_AT))
        if needed > self._prompt_limit:
            raise HostError(
                f"the longest question needs {needed} tokens, --data.max_len leaves room for "
                f"{self._prompt_limit}; raise it, or leave such questions out of the dataset"
            )

    def _vocabulary_size(self) -> int | None:
        return vocabulary_size(
            AutoConfig.from_pretrained(self.args.actor.model_name_or_path, trust_remote_code=True)
        )


def _result(reference: Any) -> Any:
    try:
        return ray.get(reference)[0]
    except ray.exceptions.RayTaskError as error:
        logger.warning("a rollout outside training failed: %s", error.cause)
        return None
