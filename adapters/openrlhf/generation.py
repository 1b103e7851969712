"""OpenRLHF's sample generator with the engine built in; both trainers generate everything through it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import ray
import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from ray.actor import ActorHandle
from torchdata.stateful_dataloader import StatefulDataLoader  # type: ignore[import-not-found]

from prompt_coevo.adapters.common.evaluation import evaluation_assignment
from prompt_coevo.adapters.common.patching import swapped
from prompt_coevo.adapters.common.trackers.texts import Texts
from prompt_coevo.adapters.openrlhf.checks import workload
from prompt_coevo.adapters.openrlhf.contract import ADVICE, check_keys, check_part
from prompt_coevo.adapters.openrlhf.distill import check_placed, train_on
from prompt_coevo.adapters.openrlhf.groups import TAG, Asked, dispatch_groups
from prompt_coevo.adapters.openrlhf.host import Reference, Response
from prompt_coevo.adapters.openrlhf.late_texts import BatchTexts
from prompt_coevo.adapters.openrlhf.policy import OpenRLHFPolicy, while_engines_live
from prompt_coevo.adapters.openrlhf.prompt_ids import PromptIds
from prompt_coevo.adapters.openrlhf.questions import CoevoPromptDataset
from prompt_coevo.adapters.openrlhf.ratio import DISTILLED, UNPUNISHED
from prompt_coevo.adapters.openrlhf.second_pass import ROLLED_OUT, entry
from prompt_coevo.adapters.openrlhf.sent_settings import received
from prompt_coevo.adapters.openrlhf.shared_tokenizer import SharedTokenizer
from prompt_coevo.adapters.openrlhf.stateful_loader import StatefulLoader, may_be_saved
from prompt_coevo.adapters.openrlhf.weights import LockedWeights, Weights
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, Rollout

Samples: TypeAlias = tuple[list[Experience], float | None, int, bool]
"""Samples to train on, the filter's pass rate, the number of prompts dispatched, and whether the dataset
is exhausted."""
STALENESS: Final = "coevo/staleness"
"""The entry of an Experience's info, logged by OpenRLHF, for how many updates the sampling weights are
behind the trained ones. Until the batch is handed over it holds the version of the sampling weights."""


class CoevoSamplesGenerator(SamplesGenerator):
    """Plans where prompts are dispatched; distils and observes where responses come back."""

    def __init__(
        self, strategy: object, prompts_dataloader: StatefulDataLoader, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(strategy, prompts_dataloader, *args, **kwargs)
        settings = received(self.args.coevo)
        check_part(prompts_dataloader, "dataset", CoevoPromptDataset)
        self._dataset: CoevoPromptDataset = prompts_dataloader.dataset
        self._questions, self.engine = self._dataset.open_engine(
            settings, Path(self.args.ckpt.path)
        )
        self._may_distill = self.engine.may_distill
        may_save = partial(may_be_saved, self.args, evaluates=self.eval_dataloader is not None)
        self.prompts_dataloader = StatefulLoader(
            prompts_dataloader, self.engine, may_save, Texts(self.engine)
        )
        self._lent = SharedTokenizer(ray.put(self.tokenizer))
        weights = Weights(self.engine)
        self._policy = OpenRLHFPolicy(
            self,
            self._dataset,
            self._questions,
            weights,
            self._dispatched,
            settings.success,
        )
        self._has_begun = self._has_checked = self._evaluates = False
        self._keeps_prompts = settings.distill_forward
        self._asked: list[tuple[Assignment, str, str]] = []
        """For each rollout in flight: its assignment, the prompt it is trained on, and its row's own
        prompt, both as OpenRLHF renders them."""
        self._observed: dict[int, Rollout] = {}
        self._texts = BatchTexts(self.tokenizer)
        self._prompt_ids = PromptIds(self.tokenizer)

    def share(self, lock: ActorHandle) -> None:
        """Share the engines with a trainer that broadcasts weights whenever `lock` is free. The caller of
        our methods for samples holds it."""
        self._policy.weights = LockedWeights(self.engine, lock)

    # Hooks

    def generate_samples(self, **generate_kwargs: Any) -> Samples:
        """Settle what is due since the last batch, then return a batch to train on.

        The last generation of a run may be empty. It settles nothing, because `finish` comes next.
        """
        self._policy.generate_kwargs = generate_kwargs
        if self._has_batch_left():
            self._between_steps()
        result: Samples = super().generate_samples(**generate_kwargs)
        for name in ("_sample_buffer", "_dataloader_iter"):  # read by `_has_batch_left`
            if not hasattr(self, name):
                check_part(self, name)
        samples, _, prompts, exhausted = result
        if samples and self.prompts_dataloader.progress.step_due:
            # A batch of leftovers, which shows only once the dataset has no more prompts.
            self._between_steps()
        for sample in samples:
            sampled_by = sample.info[STALENESS].item()
            sample.info[STALENESS] = _number(self.engine.policy_version.step - sampled_by)
        self.prompts_dataloader.progress.generated(
            prompts=prompts, trained=bool(samples), exhausted=exhausted
        )
        return result

    def _has_batch_left(self) -> bool:
        """Check whether leftover samples of an earlier generation suffice, so nothing is dispatched."""
        left = getattr(self, "_sample_buffer", None) or []
        size = self.args.rollout.batch_size * self.args.rollout.n_samples_per_prompt
        return bool(left) and (len(left) >= size or self._dataloader_iter is None)

    def generate_eval_samples(self, **generate_kwargs: Any) -> list[Experience]:
        """Run OpenRLHF's evaluation, under the best instruction if there is one."""
        with swapped(self, "_evaluates", True):
            experiences: list[Experience] = super().generate_eval_samples(**generate_kwargs)
        return experiences

    def finish(self, **generate_kwargs: Any) -> None:
        """End the run; a method may still ask for rollouts. A restarted run that had no step left comes
        here without having generated."""
        self._policy.generate_kwargs = generate_kwargs
        with self._policy.kept_awake():
            self._begin()
            self.prompts_dataloader.progress.settle(self.engine, self._policy, last=True)
            self.engine.end(self._policy)

    def _begin(self) -> None:
        if not self._has_begun:
            self._policy.weights.begin(self.prompts_dataloader.progress.batches)
            rows, questions = len(self._dataset), len(self._questions)
            self.engine.begin(self._policy, workload(self.args, rows, questions))
            self._has_begun = True

    def _between_steps(self) -> None:
        with self._policy.weights.let_go(), self._policy.kept_awake():
            self._begin()
            self.prompts_dataloader.progress.settle(self.engine, self._policy)

    # Wrapped parts of a generation

    def _generate_vllm(self, *args: Any, **kwargs: Any) -> tuple[list[Experience], int, bool]:
        # OpenRLHF has already woken the engines.
        with while_engines_live(), swapped(self._policy, "asleep", False):
            result: tuple[list[Experience], int, bool] = super()._generate_vllm(*args, **kwargs)
        # Responses come back in any order, and decisions must not depend on it.
        rollouts = [self._observed[number] for number in sorted(self._observed)]
        self.engine.observe(rollouts)
        self._asked, self._observed = [], {}
        del rollouts  # close() decodes the texts of all rollouts that are still held
        self._texts.close()
        self._prompt_ids.clear()
        return result

    def _dispatch_prompts_to_vllm(
        self, prompts: Sequence[str], labels: Sequence[object], **kwargs: Any
    ) -> list[Reference]:
        best = evaluation_assignment(self.engine) if self._evaluates else None
        if self._evaluates and best is None:
            return self._dispatched(prompts, labels, **kwargs)
        dataset = self._dataset if best is None else self.eval_dataloader.dataset
        rows = [dataset.raw(*pair) for pair in zip(prompts, labels, strict=True)]
        size = kwargs.get("n_samples_per_prompt", self.args.rollout.n_samples_per_prompt)
        if best is None:
            if not self._asked:  # later calls replace groups of the batch being sampled
                self._between_steps()
            plan = self.engine.plan(self._questions.ids_of(rows), size)
        else:
            plan = [best] * (size * len(rows))
        first = len(self._asked)
        texts: list[str] = []
        for start, row, question in zip(range(0, len(plan), size), rows, prompts, strict=True):
            some = plan[start : start + size]
            placed = dataset.place_group(some, row, question)
            texts += [sampled for sampled, _ in placed]
            self._asked += [
                (one, trained, question) for one, (_, trained) in zip(some, placed, strict=True)
            ]
        if best is None and self._may_distill:
            self._prompt_ids.ahead([*texts, *(trained for _, trained, _ in self._asked[first:])])
        # Our prompts are texts; groups have no images (see checks.py).
        kwargs.pop("images", None)
        return dispatch_groups(self._dispatched, texts, labels, kwargs, first)

    def _dispatched(
        self, prompts: Sequence[str | Asked], labels: Sequence[object], **kwargs: Any
    ) -> list[Reference]:
        with swapped(self, "tokenizer", self._lent):
            references: list[Reference] = super()._dispatch_prompts_to_vllm(
                prompts, labels, **kwargs
            )
        return references

    def _process_response_into_experience(self, response: Response, **kwargs: Any) -> Experience:
        make = super()._process_response_into_experience
        number = response.pop(TAG, None)
        if number is None:
            if self._evaluates:
                return make(response, **kwargs)
            raise HostError(
                "OpenRLHF dispatched prompts in a way that this version of prompt_coevo does not know; "
                + ADVICE
            )
        check_keys(response, "prompt", "observation_tokens", "action_ranges", "rollout_log_probs")
        assignment, trained, question = self._asked[number]
        if self._evaluates:  # OpenRLHF looks up data sources by the prompt
            return make({**response, "prompt": question}, **kwargs)
        late = self._texts.late(number)
        rollout = self._observed[number] = self._policy.scored(assignment, response, late)
        if response.get("reward") is None:
            raise HostError(
                "a rollout of the training batch has no reward: the reward function or server failed "
                "(its error is in the log of the vLLM actor), and OpenRLHF cannot train on a batch with "
                "missing rewards; let it answer with a number instead"
            )
        sampled_under = _prompt_of(response) if self._keeps_prompts else ()
        if self._may_distill or assignment.distilled:
            train_on(response, trained, self._prompt_ids)
        elif trained != question and not self._has_checked:
            self._has_checked = True
            check_placed(response, assignment, self.tokenizer)
        experience = make(response, **kwargs)
        self._texts.keep(number, response, experience)
        if assignment.distilled:
            _check_tokens(experience, response)
        if self._keeps_prompts:
            experience.info[ROLLED_OUT] = _rolled_out(assignment, sampled_under, response)
        experience.info[DISTILLED] = _number(float(assignment.distilled))
        unpunished = assignment.unpunished(rollout.reward)
        experience.info[UNPUNISHED] = _number(float(unpunished))
        experience.info[STALENESS] = _number(float(rollout.policy_version.step))
        return experience


@lru_cache(maxsize=256)
def _number(value: float) -> torch.Tensor:
    """Return an entry of an Experience's info. Rows share it: OpenRLHF never changes one in place."""
    return torch.tensor([value])


def _prompt_of(response: Response) -> list[int]:
    """Return the prompt ids that a response begins with, or none if it has no token of the policy."""
    ranges = response["action_ranges"]
    return list(response["observation_tokens"][: ranges[0][0]]) if ranges else []


def _rolled_out(
    assignment: Assignment, sampled_under: Sequence[int], response: Response
) -> torch.Tensor:
    """Return what a response ran under, for a second forward pass; it already has its trained prompt."""
    if not (assignment.distilled and response["action_ranges"]):
        return entry(0, ())
    return entry(response["action_ranges"][0][0], sampled_under)


def _check_tokens(experience: Experience, response: Response) -> None:
    """Raise HostError if the trained sequence does not begin like the distilled response."""
    start = response["action_ranges"][0][0] if response["action_ranges"] else 0
    if experience.sequences[0, :start].tolist() != response["observation_tokens"][:start]:
        raise HostError(
            "the sequence that OpenRLHF made of a response does not begin with the question's tokens, so "
            f"it would not be trained on the question; {ADVICE}"
        )
