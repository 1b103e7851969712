"""Run the unmodified `python -m verl.trainer.main_ppo` on a CPU, with the stand-ins, and read its logs.

    result = run_verl(tmp_path, train=rows(TASKS), overrides=["+coevo=stream"])
    assert result.returncode == 0, result.tail

A run's checkpoints are in its folder; every start writes its own logs, so a second start in the same
folder, with `trainer.resume_mode=auto`, resumes. Two may run at a time on two cores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from helpers.ray_cluster import RayCluster
from helpers.ray_run import HANGS_AFTER_S, RayRun, Result, read_json_lines, warm_server
from helpers.real_vllm import ENVIRONMENT
from helpers.trl_world import TASKS, WORLD
from helpers.warm_python import MODULES, client_command
from prompt_coevo.demo.digits import spell
from worlds.pairs.world import Task, base_policy_path

_TESTS = Path(__file__).parents[1]
VERL_SETTINGS = {
    "VERL_PLATFORM": "cpu",
    "VERL_USE_EXTERNAL_MODULES": "standins.verl.plugin",
    "CUDA_VISIBLE_DEVICES": "0",  # Ray counts them before it hands out the one that is not there
    "HYDRA_FULL_ERROR": "1",
    "TQ_NUM_THREADS": "1",  # with more than there are cores it warns at every call
}
"""The variables with which VeRL runs on the stand-ins."""
_ROLLOUT = "actor_rollout_ref.rollout"
_REAL_VLLM = (
    f"{_ROLLOUT}.name=vllm",
    f"{_ROLLOUT}.dtype=float32",
    f"{_ROLLOUT}.enforce_eager=True",
    f"{_ROLLOUT}.free_cache_engine=False",
    f"+{_ROLLOUT}.enable_sleep_mode=False",
    f"{_ROLLOUT}.max_model_len=146",
    f"{_ROLLOUT}.max_num_seqs=16",
    f"{_ROLLOUT}.gpu_memory_utilization=0.05",
)
_VLLM_SETTINGS = {
    name: value
    for name, value in ENVIRONMENT.items()
    if name != "VLLM_ENABLE_V1_MULTIPROCESSING"  # VeRL starts several processes
}
_IMPORT_SETTINGS = (("HF_HUB_OFFLINE", "1"), ("OMP_NUM_THREADS", "1"))
_MAIN = ("-m", "verl.trainer.main_ppo")

__all__ = ["TASKS", "WORLD", "Result", "VerlRun", "rows", "run_verl", "write_rows"]

Row = Mapping[str, Any]


def rows(tasks: Iterable[Task] = TASKS) -> list[Row]:
    """Return the demo's questions in the form that `run_verl` takes."""
    return [
        {
            "prompt": [{"role": "user", "content": task.question}],
            "ground_truth": spell(task.answer),
        }
        for task in tasks
    ]


class VerlRun(RayRun):
    """One start of the trainer."""

    def __init__(
        self,
        folder: Path,
        train: Sequence[Row] | None = None,
        val: Sequence[Row] | None = None,
        overrides: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        model: Path | None = None,
        warm: bool = True,
        cluster: RayCluster | None = None,
        gpus: int = 1,
        real_vllm: bool = False,
    ) -> None:
        """Write the data and start. Later overrides win over earlier ones and over the defaults.

        A row is `{"prompt": chat, "ground_truth": text}`, optionally with `data_source`, `extra_info` and
        more columns. `train` defaults to the demo's 8 hard questions, `val` to the first 2 rows of `train`.
        `warm` forks all processes of all runs from one with torch imported (see `helpers.warm_python`):
        half the time, and the first run pays for it. On a `cluster` it does not start its own Ray. `gpus`
        that do not exist are handed out; `trainer.n_gpus_per_node` of them train. With `real_vllm` the
        rollout server is VeRL's own, with the installed vLLM.
        """
        super().__init__(folder)
        train = rows() if train is None else train
        write_rows(self._logs / "train.parquet", train)
        write_rows(self._logs / "val.parquet", train[:2] if val is None else val)
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus)))}
        if real_vllm:
            overrides, env = [*_REAL_VLLM, *overrides], {**_VLLM_SETTINGS, **(env or {})}
        environment = self._verl_environment({**visible, **(env or {})})
        arguments, python = self._overrides(model), sys.executable
        if cluster is not None:
            python = cluster.python
            arguments += self._on(cluster, environment)
        else:
            arguments += self._own_ray(gpus)
            if warm:
                python = client_command(warm_server(MODULES, _IMPORT_SETTINGS))
        if python != sys.executable:
            arguments.append(f"++ray_kwargs.ray_init.runtime_env.py_executable='{python}'")
        self._process = self._popen([*python.split(), *_MAIN, *arguments, *overrides], environment)

    def metrics(self) -> dict[int, dict[str, float]]:
        return {
            line["step"]: line["data"] for line in read_json_lines(self._logs / "metrics.jsonl")
        }

    def _verl_environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        own = {**VERL_SETTINGS, "VERL_FILE_LOGGER_PATH": str(self._logs / "metrics.jsonl")}
        return self._environment(self._import_path({}), {**own, **extra})

    def _own_ray(self, gpus: int) -> list[str]:
        ray_init = "+ray_kwargs.ray_init"
        return [
            "ray_kwargs.ray_init.num_cpus=32",  # logical; with 8 the placement group never comes
            f"{ray_init}.num_gpus={gpus}",
            f"{ray_init}.include_dashboard=False",
            f"{ray_init}.object_store_memory=200000000",
            f"{ray_init}._temp_dir={self._ray}",
        ]

    def _on(self, cluster: RayCluster, environment: Mapping[str, str]) -> list[str]:
        """Run on the cluster: Ray's processes have its environment, plus this run's variables."""
        names = [name for name in environment if name.startswith(("COEVO_TEST_", "VERL_"))]
        variables = {name: environment[name] for name in names}
        return [
            "ray_kwargs.ray_init.num_cpus=null",
            f"+ray_kwargs.ray_init.address={cluster.address}",
            *(
                f"++ray_kwargs.ray_init.runtime_env.env_vars.{name}='{value}'"
                for name, value in variables.items()
            ),
        ]

    def _overrides(self, model: Path | None) -> list[str]:
        actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
        precision = f"+{actor}.fsdp_config.mixed_precision"
        return [
            f"hydra.run.dir={self._logs / 'hydra'}",
            "algorithm.adv_estimator=grpo",
            "algorithm.use_kl_in_reward=False",
            f"data.train_files={self._logs / 'train.parquet'}",
            f"data.val_files={self._logs / 'val.parquet'}",
            "data.train_batch_size=4",
            "data.max_prompt_length=128",
            "data.max_response_length=18",
            "data.dataloader_num_workers=0",
            "data.filter_overlong_prompts=False",
            "data.seed=0",
            f"actor_rollout_ref.model.path={model or base_policy_path()}",
            "actor_rollout_ref.model.use_remove_padding=False",
            "actor_rollout_ref.model.enable_gradient_checkpointing=False",
            "+actor_rollout_ref.model.override_config.attn_implementation=eager",
            f"{actor}.strategy=fsdp2",
            f"{actor}.optim.lr=1e-3",
            f"{actor}.ppo_mini_batch_size=4",
            f"{actor}.ppo_micro_batch_size_per_gpu=16",
            f"{actor}.use_kl_loss=False",
            f"{actor}.use_torch_compile=False",
            f"{actor}.fsdp_config.use_torch_compile=False",
            f"{precision}.param_dtype=fp32",
            f"{precision}.reduce_dtype=fp32",
            f"{precision}.buffer_dtype=fp32",
            f"{rollout}.name=hfcpu",
            f"{rollout}.n=4",
            f"{rollout}.load_format=dummy",
            f"{rollout}.calculate_log_probs=True",
            f"{rollout}.tensor_model_parallel_size=1",
            f"{rollout}.log_prob_micro_batch_size_per_gpu=16",
            f"{rollout}.agent.num_workers=1",
            f"reward.custom_reward_function.path={_TESTS / 'helpers' / 'verl_reward.py'}",
            "reward.num_workers=1",
            "trainer.device=cpu",
            "trainer.nnodes=1",
            "trainer.n_gpus_per_node=1",
            "trainer.logger=[console,file]",
            "trainer.total_epochs=1",
            "trainer.val_before_train=False",
            "trainer.test_freq=-1",
            "trainer.save_freq=-1",
            "trainer.resume_mode=auto",
            f"trainer.default_local_dir={self.folder / 'checkpoints'}",
            "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        ]


def run_verl(folder: Path, timeout: float = HANGS_AFTER_S, **arguments: Any) -> Result:
    """Start, wait, and read the logs; arguments as of `VerlRun`."""
    with VerlRun(folder, **arguments) as run:
        return run.wait(timeout)


def write_rows(path: Path, data: Sequence[Row]) -> None:
    """Write a parquet file in VeRL's format."""
    table = []
    for number, row in enumerate(data):
        columns = dict(row)
        table.append(
            {
                "data_source": columns.pop("data_source", "demo"),
                "prompt": columns.pop("prompt"),
                "ability": "demo",
                "reward_model": {"style": "rule", "ground_truth": columns.pop("ground_truth")},
                "extra_info": {"index": number, **columns.pop("extra_info", {})},
                **columns,
            }
        )
    pd.DataFrame(table).to_parquet(path)
