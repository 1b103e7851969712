"""Check the documents' code for retrieval: user modules as documented, and the client."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from helpers.documented import Block, blocks_for
from helpers.documented_programs import parse_prompt_coevo
from helpers.retrieval_server import EchoRetriever, serving

NAMED = re.compile(r"# (\w+\.py): prompt-coevo (.*)\n")


@pytest.mark.parametrize("block", blocks_for("retrieval", "module"), ids=str)
def test_a_module_is_used_by_the_command_in_its_first_line(block: Block, strangers: Path) -> None:
    """`strangers` has the modules; the tests of kinds and retrievers apply the laws to them."""
    name, command = NAMED.match(block.text).groups()  # type: ignore[union-attr]
    written = (strangers / name).read_text("utf-8")
    assert written.splitlines()[1:] == block.text.splitlines()[1:]
    arguments = shlex.split(command)
    parse_prompt_coevo(arguments)
    (wanted,) = [one for one in arguments if one.startswith(f"{name.removesuffix('.py')}:")]
    names: dict[str, Any] = {}
    exec(compile(block.text, str(block), "exec"), names)
    assert wanted.partition(":")[2] in names


@pytest.mark.parametrize("block", blocks_for("retrieval", "remote"), ids=str)
def test_the_client_asks_servers(block: Block) -> None:
    with serving(EchoRetriever()) as first, serving(EchoRetriever()) as second:
        text = block.text.replace("http://a:8000", first).replace("http://b:8000", second)
        names: dict[str, Any] = {}
        exec(compile(text, str(block), "exec"), names)
        try:
            assert len(names["hits"]) == 3
        finally:
            names["retriever"].close()


def test_every_block_has_a_test() -> None:
    assert {block.prepared for block in blocks_for("retrieval")} == {"module", "remote"}
