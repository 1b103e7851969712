"""Check a Ray cluster of two nodes: with the package on both; another version, or none, on the second."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from prompt_coevo import __version__
from prompt_coevo.adapters.openrlhf.nodes import check_nodes, on_alike_nodes
from prompt_coevo.errors import HostError

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("ray"))  # workers import from where their driver is
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        ray.init(address=made.address, log_to_driver=False)
        yield made
        ray.shutdown()
        made.shutdown()


def package(folder: Path, text: str) -> dict[str, str]:
    """Return variables that make a node's processes find this package in place of ours."""
    for part in ("prompt_coevo", "prompt_coevo/adapters", "prompt_coevo/adapters/openrlhf"):
        (folder / part).mkdir()
        (folder / part / "__init__.py").write_text("")
    (folder / "prompt_coevo" / "__init__.py").write_text(text)
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, None),
        ("__version__ = '0.0.1'", "has prompt-coevo 0.0.1 where the command"),
        ("raise ModuleNotFoundError", "has no prompt-coevo where the command"),
    ],
)
def test_each_node_has_the_same_package(
    text: str | None, told: str | None, cluster: Cluster, tmp_path: Path
) -> None:
    variables = {} if text is None else package(tmp_path, text)
    node = cluster.add_node(num_cpus=1, env_vars=variables)
    cluster.wait_for_nodes()
    try:
        if told is None:
            assert on_alike_nodes(lambda given: given)(5) == 5
            return
        with pytest.raises(HostError) as error:
            check_nodes()
        assert told in str(error.value)
        assert str(error.value).endswith(
            f"has {__version__}; install the same prompt-coevo[openrlhf] on all nodes"
        )
        with pytest.raises(SystemExit, match=r"^error: the node .* install the same"):
            on_alike_nodes(lambda: None)()
    finally:
        cluster.remove_node(node)
