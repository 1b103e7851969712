from __future__ import annotations

from prompt_coevo import Coevolution, Settings, hookimpl
from prompt_coevo.adapters.common.evaluation import evaluation_assignment
from prompt_coevo.types import Candidate


class Best:
    """A third-party plugin that provides an instruction for evaluation."""

    @hookimpl
    def coevo_evaluation_instruction(self) -> Candidate:
        return Candidate("Think.", "instruction")


def test_without_an_instruction_there_is_nothing_to_place() -> None:
    assert (
        evaluation_assignment(Coevolution.from_settings(Settings(reflection={"function": str})))
        is None
    )


def test_the_instruction_is_placed_as_the_settings_say() -> None:
    settings = Settings(algorithms=(), placement={"instruction": "prefix"})
    engine = Coevolution.from_settings(settings, plugins={"best": Best()})
    assignment = evaluation_assignment(engine)
    assert assignment is not None
    chat = [{"role": "user", "content": "why?"}]
    assert assignment.rollout_prompt(chat) == [{"role": "user", "content": "Think.\n\nwhy?"}]
    assert not assignment.distilled
