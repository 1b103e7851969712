"""Make the page of laws from their docstrings."""

from __future__ import annotations

from prompt_coevo.testing.adapter import LAWS
from prompt_coevo.testing.algorithm import AlgorithmLaws
from prompt_coevo.testing.language_model import LanguageModelLaws
from prompt_coevo.testing.proposer import ProposerLaws
from prompt_coevo.testing.retriever import RetrieverLaws

_PAGE = """\
# The laws

<!-- Made by tools/pages.py from prompt_coevo.testing. -->

What [the testing kit](testing-components.md) checks. Its own tests plant faults into small references, and
see that each is caught.

## Adapters

{adapters}
"""
_CLASSES = {
    "Methods": AlgorithmLaws,
    "Proposers": ProposerLaws,
    "Retrievers": RetrieverLaws,
    "Language models": LanguageModelLaws,
}


def laws_page() -> str:
    page = _PAGE.format(
        adapters="\n".join(f"- **{law.name}**: {law.sentence}" for law in LAWS.values())
    )
    for title, laws in _CLASSES.items():
        tests = [name for name in dir(laws) if name.startswith("test_")]
        lines = [f"- **{name[5:].replace('_', ' ')}**: {_first(laws, name)}" for name in tests]
        page += f"\n## {title}\n\n" + "\n".join(lines) + "\n"
    return page


def _first(laws: type, name: str) -> str:
    return (getattr(laws, name).__doc__ or "").splitlines()[0]
