"""Build the engine as every adapter does: with the policy's tokenizer and the gates that need one."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_coevo.adapters.common.length_gate import PromptLengthGate, PromptLimit
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.common.special_token_gate import SpecialTokenGate
from prompt_coevo.adapters.common.vocabulary_gate import VocabularyGate
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.placement import Prompt
from prompt_coevo.settings import Settings
from prompt_coevo.tokens import (
    Tokenizer,
    encode,
    encode_prompt,
    role_marks,
    special_tokens,
    unknown_token,
    vocabulary_size,
)

if TYPE_CHECKING:
    from transformers import PretrainedConfig


def open_engine(
    adapter: str,
    settings: Settings,
    questions: QuestionIndex,
    limit: PromptLimit,
    *,
    output_dir: Path | None,
    tokenizer: Tokenizer,
    model_config: PretrainedConfig,
    initial_policy: str,
    plugins: Mapping[str, object] | None = None,
) -> Coevolution:
    """Build the engine for one run of a trainer, with nothing restored yet.

    `adapter` is the trainer's package; it also names the gates, and so their state in checkpoints.
    `tokenizer` (or a processor) and `model_config` are those of transformers, `initial_policy` is the
    checkpoint that training starts from. Without an `output_dir` nothing is written. `plugins` are
    registered by name, after the gates. Raises SettingsError, PluginError or MissingExtraError.
    """
    # A copy, because proposers count tokens in the background while the trainer tokenises.
    own_tokenizer, reading = copy.deepcopy(tokenizer), threading.Lock()

    def read(text: str) -> list[int]:
        with reading:  # a tokenizer may not be thread-safe
            return encode(own_tokenizer, text)

    def read_prompt(prompt: Prompt) -> list[int]:
        with reading:
            return encode_prompt(own_tokenizer, prompt)

    placement = settings.placement.build()
    return Coevolution.from_settings(
        settings,
        output_dir=output_dir,
        count_tokens=lambda text: len(read(text)),
        initial_policy=initial_policy,
        system_message=questions.shared_system_message,
        plugins={
            f"{adapter}_length_gate": PromptLengthGate(
                questions,
                placement,
                limit,
                count_tokens=lambda text: len(read(text)),
            ),
            f"{adapter}_vocabulary_gate": VocabularyGate(read, vocabulary_size(model_config)),
            f"{adapter}_special_token_gate": SpecialTokenGate(
                special_tokens(own_tokenizer),
                read_prompt,
                placement,
                questions.first_prompt,
                settings.gates.required_tags,
                unknown_token(own_tokenizer),
                role_marks(own_tokenizer),
            ),
            **(plugins or {}),
        },
        dataset=questions.identity,
        host=_versioned(adapter),
        encode=read_prompt,
    )


def _versioned(adapter: str) -> str:
    try:
        return f"{adapter} {version(adapter)}"
    except PackageNotFoundError:  # a trainer that is not an installed package
        return adapter
