"""Settings of a search agent: where it searches and its limits."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from prompt_coevo.errors import SettingsError
from prompt_coevo.retrieval.agent.scoring import Metric
from prompt_coevo.retrieval.agent.tags import UnclosedThink
from prompt_coevo.retrieval.agent.tool import SearchTool
from prompt_coevo.retrieval.named import open_retriever
from prompt_coevo.settings.mistakes import describe
from prompt_coevo.settings.sources import read_agent

_PLACES: Final = ("url", "index", "retriever")


class SearchAgentSettings(BaseModel):
    """Settings of a search agent. Defaults are INSPO's for 3B models (arXiv 2512.01945, appendix B).

    Raises SettingsError.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    preset: str | Path | None = None
    """A preset or settings file. Its section `search_agent` provides values not given here."""
    url: str | tuple[str, ...] | None = None
    """A search server, or several with the same index."""
    index: Path | None = None
    """An index to open in this process instead of asking a server."""
    retriever: str | None = None
    """Instead of both: a retriever's name, or `module:attribute` of a function that makes one."""
    retriever_options: dict[str, Any] = Field({})
    """Arguments of the retriever."""
    k: int = Field(3, ge=1)
    """Passages per search."""
    max_turns: int = Field(4, ge=1)
    """Turns that may search; one further turn may answer."""
    turn_tokens: int = Field(500, ge=1)
    """Most tokens in a turn."""
    observation_tokens: int = Field(500, ge=1)
    """Most tokens in an observation's passages; its tags come on top."""
    unclosed_think: UnclosedThink = "search"
    """How to treat a search in a `<think>` that is not closed before it. Search-R1 searches."""
    metric: Metric = "em"
    """How to score the answer: exact match, F1, or a gold answer contained in it."""
    on_outage: Literal["wait", "observe", "raise"] = "wait"
    """What to do while no server answers: wait, tell the policy at once, or end the training."""
    request_timeout_s: float = Field(20.0, gt=0)
    """With `url`: seconds after which a request has failed, retries included."""
    max_wait_s: float = Field(600.0, gt=0)
    """With `wait`: seconds after which the policy is told about the outage."""
    max_search_s: float = Field(600.0, gt=0)
    """With `index` or `retriever`: seconds after which a search counts as hung, which is an outage."""

    def __init__(self, **values: Any) -> None:
        if values.get("preset") is not None:
            values = _beside_preset(values)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise SettingsError(f"search agent: {describe(error, type(self), values)}") from None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if [self.url, self.index, self.retriever].count(None) != 2:
            raise ValueError(
                "set either url, a search server, or index, a folder, or retriever, the name of another"
            )
        if self.retriever is None and self.retriever_options:
            raise ValueError("retriever_options have no effect without retriever; set that, too")
        if self.retriever is not None and "request_timeout_s" in self.model_fields_set:
            raise ValueError(
                "request_timeout_s is for url alone; a retriever has retriever_options of its own"
            )
        if self.url is not None and "max_search_s" in self.model_fields_set:
            raise ValueError(
                "max_search_s is for searches in this process; with url there is request_timeout_s"
            )
        return self

    def __hash__(self) -> int:
        """Hash the hashable fields; the options are not hashable."""
        return hash((self.url, self.index, self.retriever))


def _beside_preset(values: dict[str, Any]) -> dict[str, Any]:
    """Add the preset's values. If a place to search is given here, the preset's place is dropped."""
    section = read_agent(values["preset"])
    if any(values.get(name) is not None for name in _PLACES):
        section = {
            name: value
            for name, value in section.items()
            if name not in (*_PLACES, "retriever_options")
        }
    return {**section, **values}


@lru_cache(maxsize=8)
def tool_of(settings: SearchAgentSettings) -> SearchTool:
    """Return the tool for these settings. All agents of a process share it, so that their queries are
    batched."""
    if settings.retriever is not None:
        name, options = settings.retriever, settings.retriever_options
    elif settings.index is not None:
        name, options = "index", {"folder": settings.index}
    else:
        name = "remote"
        options = {"url": settings.url, "total_timeout_s": settings.request_timeout_s}
    return SearchTool(
        open_retriever(name, options),
        k=settings.k,
        on_outage=settings.on_outage,
        max_wait_s=settings.max_wait_s,
        max_search_s=settings.max_search_s,
    )
