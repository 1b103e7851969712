"""Check the sample generator in a real Ray without its trainer (what it sends, and the order of results),
and the asynchronous trainer's lock: who may broadcast when, and what counts.

Stand-ins: vLLM and flash-attn, of which only names count; the vLLM actor makes its responses up.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
import torch

import standins.openrlhf
from prompt_coevo import hookimpl
from prompt_coevo.algorithms.hard_questions.results import Results
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, Group, PolicyVersion, Rollout, RolloutRequest, Sampling

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(standins.openrlhf.__file__).parent))
    from openrlhf.trainer.ppo_utils.experience import Experience, split_experience_batch
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

    from helpers.openrlhf_generator import TEMPLATES, engines, generator, local_ray
    from prompt_coevo.adapters.openrlhf import distill, generation, groups, trainer, weights
    from prompt_coevo.adapters.openrlhf.generation import STALENESS
    from prompt_coevo.adapters.openrlhf.late_texts import BatchTexts
    from prompt_coevo.adapters.openrlhf.policy import while_engines_live

QUESTIONS, SIZE, TOKENS = 6, 5, 300


@pytest.fixture(scope="module")
def _ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with local_ray(tmp_path_factory.mktemp("ray")):
        yield


@pytest.fixture(scope="module")
def actors(_ray: None) -> list[Any]:
    return engines(1, TOKENS)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record what `dispatch_groups` passes to OpenRLHF."""
    references: list[Any] = []
    dispatch = generation.dispatch_groups

    def spied(*arguments: Any) -> Any:
        references.extend(found := dispatch(*arguments))
        return found

    monkeypatch.setattr(generation, "dispatch_groups", spied)
    return references


def test_a_group_is_one_request(tmp_path: Path, actors: list[Any], sent: list[Any]) -> None:
    """Whatever number of prompts it has, the vLLM actor answers with all of its responses."""
    made = generator(tmp_path, actors, QUESTIONS, SIZE, TOKENS)
    samples, *_ = made.generate_samples(n_samples_per_prompt=SIZE, max_new_tokens=TOKENS)
    assert len(sent) == QUESTIONS
    for number, reference in enumerate(sent):
        held = ray.get(reference)
        assert [one[groups.TAG] for one in held] == list(range(number * SIZE, (number + 1) * SIZE))
        assert {type(one["prompt"]) for one in held} == {str}
        prompts = 1 if number % 2 else 1 + len(TEMPLATES)
        assert len({one["prompt"] for one in held}) == prompts
    # Groups stand together in the batch, and were distilled to their question.
    assert len(samples) == QUESTIONS * SIZE
    for start in range(0, len(samples), SIZE):
        group = samples[start : start + SIZE]
        assert len({one.prompts[0] for one in group}) == 1
        assert len({one.labels[0] for one in group}) == 1
        distilled = [float(one.info["coevo_distilled"]) for one in group]
        assert sum(distilled) in (0, 3)


@pytest.mark.usefixtures("_ray")
def test_the_tokenizer_is_sent_once(tmp_path: Path) -> None:
    """OpenRLHF sends a tokenizer with every request; here all requests share one."""
    made: Any = generator(tmp_path, engines(1, TOKENS), QUESTIONS, SIZE, TOKENS)
    for _ in range(2):
        made._dataloader_iter = None
        made._sample_buffer = None
        samples, *_ = made.generate_samples(n_samples_per_prompt=SIZE, max_new_tokens=TOKENS)
        assert {float(one.info["tokenizers"]) for one in samples} == {1.0}


class Reads:
    """A method that reads one text as soon as it may, and holds another rollout."""

    def __init__(self, first: int | None = None, held: int | None = None) -> None:
        self._first, self._held = first, held
        self.text = ""
        self.rollouts: list[Rollout] = []

    @hookimpl
    def coevo_observe(self, groups: list[Group]) -> None:
        rollouts = [one for group in groups for one in group.rollouts]
        assert len(rollouts) == QUESTIONS * SIZE
        if self._first is not None:
            self.text = rollouts[self._first].completion
        if self._held is not None:
            self.rollouts = [rollouts[self._held]]


@pytest.mark.parametrize(
    ("reads", "fetched"),
    [(Reads(), range(0)), (Reads(first=7), range(1, QUESTIONS * SIZE + 1)), (Reads(held=3), [1])],
)
def test_texts_are_decoded_where_a_method_reads_them(
    reads: Reads,
    fetched: Sequence[int],
    tmp_path: Path,
    actors: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Texts are decoded once, with those that arrived after it, and also where a rollout is held."""
    counts: list[int] = []
    decoded = BatchTexts._decoded

    def counted(texts: BatchTexts, names: Sequence[str]) -> list[str]:
        counts.append(len(names))
        return decoded(texts, names)

    monkeypatch.setattr(BatchTexts, "_decoded", counted)
    # Otherwise the run's method reads one success of each group with templates.
    monkeypatch.setattr(Results, "observe", lambda results, groups: [])
    made: Any = generator(tmp_path, actors, QUESTIONS, SIZE, TOKENS)
    made.engine.context.plugins.register(reads, "reads")
    samples, *_ = made.generate_samples(n_samples_per_prompt=SIZE, max_new_tokens=TOKENS)
    assert len(counts) == bool(fetched)
    assert all(count in fetched for count in counts)
    texts = [reads.text] * bool(reads.text) + [one.completion for one in reads.rollouts]
    own = [one.sequences[0, 1:][one.action_mask[0] > 0] for one in samples]
    sampled = made.tokenizer.batch_decode(own, skip_special_tokens=True)
    assert all(text in sampled for text in texts)
    assert len(texts) == len(counts)


def test_the_text_of_a_response_that_openrlhf_cuts_off_is_whole() -> None:
    tokenizer: Any = SimpleNamespace(
        batch_decode=lambda rows, skip_special_tokens: [" ".join(map(str, row)) for row in rows]
    )
    texts = BatchTexts(tokenizer)
    response: Any = {"observation_tokens": [1, 2, 3, 4, 5], "action_ranges": [(2, 4), (4, 5)]}
    rollout = Rollout.scored(Assignment("q"), texts.late(5), 1.0, PolicyVersion())
    cut: Any = SimpleNamespace(sequences=torch.tensor([[1, 2, 3]]))
    texts.keep(5, response, cut)
    texts.close()
    assert rollout.completion == "3 4 5"


def test_a_number_that_rows_share_is_copied_where_openrlhf_makes_batches() -> None:
    number = generation._number(0.5)
    rows = [Experience(sequences=torch.zeros(1, 2), info={"number": number}) for _ in range(2)]
    for some in (rows, rows[:1]):
        batch = Experience.concat_experiences(some, 0)
        for made in (batch, *split_experience_batch(batch)):
            made.info["number"] += 1
    assert generation._number(0.5) is number
    assert number.item() == 0.5


def test_another_number_of_responses_is_refused() -> None:
    with pytest.raises(HostError, match=r"sampled 1 responses where 2 were asked for; install"):
        groups.numbered(groups.Asked({"why?": (0, 1)}), [[{"prompt": "why?"}]])  # type: ignore[typeddict-item]


def test_an_agent_may_answer_twice_with_the_same_lists() -> None:
    """For example an agent that caches its answers. After Ray's transfer they are the same lists again."""
    kept: Any = {
        "prompt": "in short : why ?",
        "observation_tokens": [1, 2, 3, 4, 7, 8],
        "action_ranges": [(4, 6)],
        "rollout_log_probs": [0.0, 0.0, 0.0, 0.0, -1.0, -2.0],
    }
    asked = groups.Asked({kept["prompt"]: (0, 1, 2)})
    carried = pickle.loads(pickle.dumps(groups.numbered(asked, [[kept, kept, dict(kept)]])))
    for response in carried:
        distill.exchange_prompt(response, [1, 2, 3, 4], "why ?", [9])
        assert response["observation_tokens"] == [9, 7, 8]
        assert response["action_ranges"] == [(1, 3)]
        assert response["rollout_log_probs"] == [0.0, -1.0, -2.0]


def test_a_response_that_does_not_say_its_prompt_is_refused() -> None:
    with pytest.raises(
        HostError, match=r"a response of OpenRLHF has no 'prompt', which this adapter"
    ):
        groups.numbered(groups.Asked({"why?": (0,)}), [[{"reward": 1.0}]])  # type: ignore[typeddict-item]


def test_prompts_that_are_not_dispatched_are_refused() -> None:
    with pytest.raises(HostError, match=r"dispatched 0 of 1 prompts; install"):
        groups.dispatch_groups(lambda *_, **__: [], ["why?"] * 2, ["1"], {}, 0)


@pytest.mark.usefixtures("_ray")
def test_an_engine_that_dies_ends_the_run_by_one_sentence(tmp_path: Path) -> None:
    actors = engines(1, TOKENS)
    made: Any = generator(tmp_path, actors, 2, 2, TOKENS)
    kwargs = {"n_samples_per_prompt": 2, "max_new_tokens": TOKENS}
    made.generate_samples(**kwargs)
    ray.kill(actors[0])
    question = made._questions.ids()[0]
    said = r"^a vLLM engine died while rollouts were sampled .* start the command again"
    with pytest.raises(HostError, match=said):
        made._policy.rollout([RolloutRequest(Assignment(question), Sampling())])
    made._dataloader_iter = None
    with pytest.raises(HostError, match=said):
        made.generate_samples(**kwargs)


@pytest.mark.usefixtures("_ray")
def test_an_agent_whose_own_ray_actor_died_is_not_taken_for_an_engine() -> None:
    """Ray raises a task's error as an error of its class."""

    @ray.remote(num_cpus=0)
    def samples_with_a_tool() -> None:
        raise ray.exceptions.ActorDiedError

    with pytest.raises(ray.exceptions.RayTaskError), while_engines_live():
        ray.get(samples_with_a_tool.remote())


class AsksAtTheEnd:
    """A method that requests rollouts when training is over."""

    @hookimpl
    def coevo_train_end(self, policy: Any) -> None:
        policy.rollout([RolloutRequest(Assignment(policy.question_ids()[0]), Sampling())])


def test_rollouts_after_training_are_sampled_as_those_before(
    tmp_path: Path, actors: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when a run restarts with fewer episodes than it has had, and generates nothing."""
    asked: list[dict[str, Any]] = []
    dispatch = SamplesGenerator._dispatch_prompts_to_vllm

    def spied(self: Any, prompts: Any, labels: Any, **kwargs: Any) -> Any:
        asked.append(kwargs)
        return dispatch(self, prompts, labels, **kwargs)

    monkeypatch.setattr(SamplesGenerator, "_dispatch_prompts_to_vllm", spied)
    made: Any = generator(tmp_path, actors, 2, 2, TOKENS)
    made.engine.context.plugins.register(AsksAtTheEnd(), "asks")
    half = trainer._Generates.__new__(trainer._Generates)
    half.samples_generator = made
    half.generate_kwargs = {"max_new_tokens": TOKENS, "temperature": 0.5, "max_len": 400}
    half.finish()
    assert asked == [{**half.generate_kwargs, "n_samples_per_prompt": 1}]


@pytest.fixture(scope="module")
def lock(_ray: None) -> Any:
    return ray.remote(num_cpus=0)(weights.CoevoVLLMLock).remote()


class Journal:
    """An engine with only what the weights code uses."""

    def __init__(self, step: int) -> None:
        self.policy_version = PolicyVersion(2, step)
        self.context = self
        self.notes: list[Any] = []

    def note(self, event: str, **fields: Any) -> None:
        self.notes.append((event, fields))


def broadcast(lock: Any) -> None:
    """Broadcast as the training half does: `_CountsBroadcasts` below OpenRLHF's own method."""
    half = trainer.CoevoTrainingActor.__new__(trainer.CoevoTrainingActor)
    half.args = SimpleNamespace(vllm=SimpleNamespace(enable_sleep=False))
    half.vllm_lock, half._partial_rollout = lock, False
    half.actor_model_group = SimpleNamespace(async_run_method=lambda method_name: [])
    half.broadcast_to_vllm()


def test_training_broadcasts_between_two_batches_of_a_search(lock: Any) -> None:
    """Training cannot broadcast in the middle of a batch, because the lock is held then."""
    broadcast(lock)  # the resumed run's weights
    engine = Journal(step=4)
    ours = weights.LockedWeights(engine, lock)  # type: ignore[arg-type]
    ray.get(lock.acquire.remote())  # as OpenRLHF's generator does before it calls us
    ours.begin(4)
    assert ours.version() == (2, 4)
    with ours.let_go():
        with ours.batch(3):
            assert ours.version() == (2, 4)
        broadcast(lock)
        assert ours.version() == (2, 4)  # of the last samples
        with ours.batch(5):
            assert ours.version() == (2, 5)
        broadcast(lock)
    assert ours.version() == (2, 6)
    assert engine.notes == [("search_under_several_weights", {"rollouts": {"4": 3, "5": 5}})]
    ray.get(lock.release.remote())
    with ours.batch(1):  # after training the lock is free, and there are no broadcasts
        pass
    broadcast(lock)


def test_a_batch_and_a_generation_keep_broadcasts_out(lock: Any) -> None:
    ours = weights.LockedWeights(Journal(0), lock)  # type: ignore[arg-type]
    ray.get(lock.acquire.remote())
    ours.begin(0)

    def fails() -> None:
        with ours.let_go():
            with ours.batch(1):
                late = lock.acquire.remote()
                assert not ray.wait([late], timeout=0.2)[0]
            ray.get(late)
            ray.get(lock.release.remote())
            raise RuntimeError("the search failed")

    with pytest.raises(RuntimeError, match="the search failed"):
        fails()
    late = lock.acquire.remote()  # OpenRLHF's generator releases what it has acquired
    assert not ray.wait([late], timeout=0.2)[0]
    ray.get(lock.release.remote())
    ray.get(late)
    ray.get(lock.release.remote())


def test_staleness_is_how_many_updates_a_batch_is_behind(
    lock: Any, actors: list[Any], tmp_path: Path
) -> None:
    made: Any = generator(tmp_path, actors, 4, 3, TOKENS)
    made.share(lock)
    kwargs = {"n_samples_per_prompt": 3, "max_new_tokens": TOKENS}
    ages = []
    for updated in (False, False, True, False):
        if updated:
            broadcast(lock)
        ray.get(lock.acquire.remote())
        made._dataloader_iter = None
        samples, *_ = made.generate_samples(**kwargs)
        ray.get(lock.release.remote())
        ages.append({float(sample.info[STALENESS]) for sample in samples})
    assert ages == [{0.0}, {1.0}, {1.0}, {2.0}]


@pytest.mark.parametrize(("batch", "drawn"), [(3, 8), (4, 8), (4, 4)])
def test_every_batch_is_a_step_of_the_engine(
    tmp_path: Path, actors: list[Any], batch: int, drawn: int
) -> None:
    """Also an episode's last batch, which earlier generations have left over."""
    made: Any = generator(tmp_path, actors, 16, 3, TOKENS)
    made.args.rollout.batch_size, made.args.rollout.vllm_generate_batch_size = batch, drawn
    kwargs = {"n_samples_per_prompt": 3, "max_new_tokens": TOKENS}
    batches, ages = 0, set[float]()
    for _ in range(2):
        exhausted = False
        while not exhausted:
            samples, _, _, exhausted = made.generate_samples(**kwargs)
            batches += bool(samples)
            ages.update(float(sample.info[STALENESS]) for sample in samples)
    made.finish()
    assert made.engine.policy_version.step == batches
    assert min(ages) == 0
