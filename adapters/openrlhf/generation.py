"""OpenRLHF's sample generator with the engine in it; both trainers generate everything through it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from transformers import AutoConfig

from prompt_coevo.adapters.openrlhf.checkpoint import StatefulPrompts
from prompt_coevo.adapters.openrlhf.checks import check_questions, prompt_limit
from prompt_coevo.adapters.openrlhf.distil import PromptExchange
from prompt_coevo.adapters.openrlhf.groups import TAG, AskedGroup, dispatch_groups
from prompt_coevo.adapters.openrlhf.host import Label, Reference, Response, Tag
from prompt_coevo.adapters.openrlhf.policy import OpenRLHFPolicy
from prompt_coevo.adapters.openrlhf.questions import CoevoPromptDataset
from prompt_coevo.adapters.openrlhf.ratio import DISTILLED
from prompt_coevo.doors.evaluation import evaluation_assignment
from prompt_coevo.doors.open_engine import open_engine
from prompt_coevo.doors.patching import swapped
from prompt_coevo.doors.sent_settings import received
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, Rollout

if TYPE_CHECKING:
    from openrlhf.trainer.ppo_utils.experience import Experience
    from torchdata.stateful_dataloader import StatefulDataLoader  # type: ignore[import-not-found]


class CoevoSamplesGenerator(SamplesGenerator):
    """Plans where prompts are dispatched, distils and observes where responses come back."""

    def __init__(
        self, strategy: object, prompts_dataloader: StatefulDataLoader, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(strategy, prompts_dataloader, *args, **kwargs)
        settings, model = received(self.args.coevo), self.args.actor.model_name_or_path
        self._dataset: CoevoPromptDataset = prompts_dataloader.dataset
        self._questions = self._dataset.index(settings)
        limit = prompt_limit(self.args, self._dataset)
        self.engine = open_engine(
            "openrlhf",
            settings,
            self._questions,
            limit,
            output_dir=Path(self.args.ckpt.path),
            tokenizer=self.tokenizer,
            model_config=AutoConfig.from_pretrained(model, trust_remote_code=True),
            initial_policy=model,
        )
        if self.engine.may_distil:
            check_questions(self._questions, limit)
        evaluates = self.eval_dataloader is not None
        self.prompts_dataloader = StatefulPrompts(
            prompts_dataloader, self.engine, self.args, evaluates=evaluates
        )
        dispatch = super()._dispatch_prompts_to_vllm
        self._policy = OpenRLHFPolicy(self, self._dataset, self._questions, self.engine, dispatch)
        self._exchange = PromptExchange(self._dataset, self._questions, self.engine.may_distil)
        self._has_begun = self._evaluates = False
        self._under_way: dict[tuple[int, int], list[Assignment]] = {}
        self._evaluated: Sequence[str] = ()
        self._observed: list[Rollout] = []

    # Moments

    def generate_samples(self, **generate_kwargs: Any) -> tuple[Any, ...]:
        """A batch to train on; before it, what is due since the last one.

        The last generation of a run may be empty. Nothing is due then: `finish` comes next.
        """
        self._policy.generate_kwargs = generate_kwargs
        if self._has_batch_left():
            self._between_steps()
        result: tuple[Any, ...] = super().generate_samples(**generate_kwargs)
        samples, _, prompts, exhausted = result
        self.prompts_dataloader.progress.generated(
            prompts=prompts, trained=bool(samples), exhausted=exhausted
        )
        return result

    def _has_batch_left(self) -> bool:
        """Whether samples of an earlier generation will do, so that nothing is dispatched."""
        left = getattr(self, "_sample_buffer", None) or []
        size = self.args.rollout.batch_size * self.args.rollout.n_samples_per_prompt
        return bool(left) and (len(left) >= size or self._dataloader_iter is None)

    def generate_eval_samples(self, **generate_kwargs: Any) -> list[Experience]:
        """OpenRLHF's evaluation, under the best instruction if there is one."""
        with swapped(self, "_evaluates", True):
            experiences: list[Experience] = super().generate_eval_samples(**generate_kwargs)
        return experiences

    def finish(self) -> None:
        """Training is over."""
        self.prompts_dataloader.progress.settle(self.engine, self._policy, last=True)
        self.engine.end(self._policy)

    def _between_steps(self) -> None:
        if not self._has_begun:
            self.engine.begin(self._policy)
            self._has_begun = True
        self.prompts_dataloader.progress.settle(self.engine, self._policy)

    # The wrapped parts of a generation

    def _generate_vllm(self, *args: Any, **kwargs: Any) -> tuple[list[Experience], int, bool]:
        with swapped(self._policy, "asleep", False):  # OpenRLHF has woken the engines
            result: tuple[list[Experience], int, bool] = super()._generate_vllm(*args, **kwargs)
        if self._observed:
            # Responses come back in any order, and decisions must not depend on it.
            self._observed.sort(key=lambda one: _tag(one.assignment))
            self.engine.observe(self._observed)
            self._observed = []
        self._under_way.clear()
        return result

    def _dispatch_prompts_to_vllm(
        self, prompts: Sequence[str], labels: Sequence[Label], **kwargs: Any
    ) -> list[Reference]:
        dispatch = super()._dispatch_prompts_to_vllm
        size = kwargs.get("n_samples_per_prompt", self.args.rollout.n_samples_per_prompt)
        if not self._evaluates:
            self._between_steps()
            groups = self._planned(prompts, labels, size)
        elif best := evaluation_assignment(self.engine):
            groups = self._evaluation(prompts, labels, best, size)
        else:
            references: list[Reference] = dispatch(prompts, labels, **kwargs)
            return references
        # Our prompts are texts; groups have no images (see checks.py).
        kwargs.pop("images", None)
        return dispatch_groups(dispatch, groups, kwargs)

    def _planned(
        self, prompts: Sequence[str], labels: Sequence[Label], size: int
    ) -> list[AskedGroup]:
        rows = [self._dataset.raw(*pair) for pair in zip(prompts, labels, strict=True)]
        plan = self.engine.plan(self._questions.ids_of(rows), size)
        groups = []
        for number, row in enumerate(rows):
            group = plan[number * size : (number + 1) * size]
            self._under_way[group[0].round, group[0].group] = group
            members: dict[str, list[Tag]] = {}
            for one in group:
                text = self._dataset.place(one, row, prompts[number])
                members.setdefault(text, []).append(_tag(one))
            groups.append(AskedGroup(labels[number], members))
        return groups

    def _evaluation(
        self, prompts: Sequence[str], labels: Sequence[Label], best: Assignment, size: int
    ) -> list[AskedGroup]:
        dataset: CoevoPromptDataset = self.eval_dataloader.dataset
        self._evaluated = prompts
        groups = []
        for number, (prompt, label) in enumerate(zip(prompts, labels, strict=True)):
            placed = dataset.place(best, dataset.raw(prompt, label), prompt)
            tags = [(0, number, member) for member in range(size)]
            groups.append(AskedGroup(label, {placed: tags}))
        return groups

    def _process_response_into_experience(self, response: Response, **kwargs: Any) -> Experience:
        make = super()._process_response_into_experience
        tag = response.pop(TAG, None)
        if self._evaluates:
            if tag is not None:  # OpenRLHF finds its data sources by the prompt
                response["prompt"] = self._evaluated[tag[1]]
            return make(response, **kwargs)
        if tag is None:
            raise HostError(
                "OpenRLHF dispatched prompts in a way that this version of prompt_coevo does not know; "
                "install openrlhf==0.11.2"
            )
        number, group, member = tag
        assignment = self._under_way[number, group][member]
        self._observed.append(self._policy.scored(assignment, response))
        if response.get("reward") is None:
            raise HostError(
                "a rollout of the training batch has no reward: the reward function or server failed "
                "(its error is in the log of the vLLM actor), and OpenRLHF cannot train on a batch with "
                "missing rewards; let it answer with a number instead"
            )
        experience = make(self._exchange.apply(response, assignment), **kwargs)
        experience.info[DISTILLED] = torch.tensor([float(assignment.distilled)])
        return experience


def _tag(assignment: Assignment) -> Tag:
    return assignment.round, assignment.group, assignment.member
