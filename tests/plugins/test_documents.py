"""Check the documents' code for the two third-party methods, with both installed."""

from __future__ import annotations

import pytest

from helpers.documented import Block, blocks_for
from prompt_coevo import Settings


@pytest.mark.parametrize("block", blocks_for("plugins"), ids=str)
def test_settings_of_the_methods(block: Block) -> None:
    assert block.prepared == "plugins"
    exec(compile(block.text, str(block), "exec"), {"Settings": Settings})
