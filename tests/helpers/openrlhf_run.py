"""Run the unmodified `python -m openrlhf.cli.train_ppo_ray` on a CPU, with the stand-ins.

    result = run_openrlhf(tmp_path, train=rows(TASKS), overrides=["--train.num_episodes=2"])
    assert result.returncode == 0, result.tail

A run's checkpoints are in its folder; every start writes its own logs, so a second start in the same
folder resumes. Only one may run at a time on a small machine.

DeepSpeed compiles nothing, see `standins.openrlhf.cpu`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from helpers.ray_run import HANGS_AFTER_S, RayRun, Result, inherited, read_json_lines, warm_server
from helpers.real_vllm import ENVIRONMENT
from helpers.trl_world import TASKS, WORLD
from helpers.warm_python import client_command
from prompt_coevo.demo.digits import spell
from worlds.pairs.world import Task, base_policy_path

_HELPERS = Path(__file__).parent
_STANDINS = _HELPERS.parent / "standins" / "openrlhf"
_MODULES = (
    "aiohttp", "deepspeed", "numpy", "openai", "peft", "pyarrow", "torch",
    "torch.distributed", "torchdata.stateful_dataloader", "transformers",
    "transformers.models.llama.modeling_llama", "transformers.trainer",
)  # fmt: skip
_IMPORT_SETTINGS = {
    "DS_ACCELERATOR": "cpu",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TORCH_COMPILE_DISABLE": "1",  # DeepSpeed compiles functions when it is imported
}
REAL_VLLM = {
    "COEVO_TEST_INSTALL": "standins.openrlhf.real_vllm:install",
    "COEVO_TEST_VLLM": "standins.openrlhf.real_vllm:in_vllm",
}

__all__ = [
    "TASKS", "WORLD", "OpenRLHFRun", "Result", "check_openrlhf", "rows", "run_openrlhf", "write_rows",
]  # fmt: skip

Row = Mapping[str, Any]


def rows(tasks: Iterable[Task] = TASKS) -> list[Row]:
    """Return the demo's questions in the form that `run_openrlhf` takes."""
    return [
        {"input": [{"role": "user", "content": task.question}], "label": spell(task.answer)}
        for task in tasks
    ]


class OpenRLHFRun(RayRun):
    """One start of the trainer."""

    def __init__(
        self,
        folder: Path,
        train: Sequence[Row] | None = None,
        val: Sequence[Row] | None = None,
        overrides: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        module: str = "openrlhf.cli.train_ppo_ray",
        model: Path | None = None,
        reward: str = "demo",
        agent: Path | None = None,
        template: str | None = None,
        warm: bool = True,
        real_vllm: bool = False,
    ) -> None:
        """Write the data and start. Later overrides win over earlier ones and over the defaults.

        A row is `{"input": chat, "label": text}`, optionally with `datasource` and more columns. `train`
        defaults to the demo's 8 hard questions; only `val` adds an evaluation dataset. An override is a
        command-line argument; a flag that is on by default cannot be turned off. `reward` names a function
        of `helpers.openrlhf_reward`; an `agent` file brings its own rewards. With a `template`, prompts are
        texts inserted into it. `warm` forks all processes of all runs from one with torch and DeepSpeed
        imported (see `helpers.warm_python`): the first run pays for it. `real_vllm` uses the installed vLLM
        (see `standins.openrlhf.real_vllm`).
        """
        super().__init__(folder)
        write_rows(self._logs / "train.jsonl", rows() if train is None else train)
        arguments = [*self._arguments(model), *self._prompts(template), *overrides]
        option = "--train.agent_func_path" if agent else "--reward.remote_url"
        arguments.insert(0, f"{option}={agent or _HELPERS / 'openrlhf_reward.py'}")
        if val is not None:
            write_rows(self._logs / "val.jsonl", val)
            arguments.insert(0, f"--eval.dataset={self._logs / 'val.jsonl'}")
        python, runtime_env = [sys.executable, "-P"], {}
        if warm:
            command = _warm_python()
            runtime_env["py_executable"] = command
            python = command.split()
        if real_vllm:
            env = {**ENVIRONMENT, **REAL_VLLM, **(env or {})}
        environment = self._openrlhf_environment(reward, runtime_env, env or {}, real_vllm)
        script = str(self._logs / "path" / "launch.py")
        self._process = self._popen([*python, script, module, *arguments], environment)

    @property
    def logs(self) -> Path:
        """Return the folder of this start's logs."""
        return self._logs

    def metrics(self) -> dict[int, dict[str, float]]:
        steps: dict[int, dict[str, float]] = {}
        for line in read_json_lines(self._logs / "metrics.jsonl"):
            steps.setdefault(line["step"], {}).update(line["data"])
        return steps

    def _openrlhf_environment(
        self,
        reward: str,
        runtime_env: Mapping[str, Any],
        extra: Mapping[str, str],
        real_vllm: bool,
    ) -> dict[str, str]:
        names = ("flash_attn", "launch.py", *(() if real_vllm else ("vllm",)))
        path = self._import_path({name: _STANDINS / name for name in names})
        ray_settings = {
            "num_cpus": 16,  # logical
            "num_gpus": 8,  # that do not exist
            "include_dashboard": False,
            "object_store_memory": 200_000_000,
            "_temp_dir": str(self._ray),
            "runtime_env": {
                **runtime_env,
                "worker_process_setup_hook": "standins.openrlhf.plugin.install",
            },
        }
        own = {
            "COEVO_TEST_RAY": json.dumps(ray_settings),
            "COEVO_TEST_REWARD": reward,
            # Ray counts them before it hands out those not there.
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(8))),
            "HF_DATASETS_CACHE": str(self._ray / "datasets"),
            **_IMPORT_SETTINGS,
        }
        return self._environment(path, {**own, **extra})

    @staticmethod
    def _prompts(template: str | None) -> list[str]:
        return [
            "--data.apply_chat_template"
            if template is None
            else f"--data.input_template={template}"
        ]

    def _arguments(self, model: Path | None) -> list[str]:
        return [
            f"--actor.model_name_or_path={model or base_policy_path()}",
            "--actor.num_gpus_per_node=1",
            "--ref.num_gpus_per_node=1",
            "--critic.num_gpus_per_node=1",
            "--reward.num_gpus_per_node=1",
            "--vllm.num_engines=1",
            "--vllm.sync_backend=gloo",
            "--vllm.enforce_eager",
            f"--data.prompt_dataset={self._logs / 'train.jsonl'}",
            "--data.input_key=input",
            "--data.label_key=label",
            "--data.max_len=146",
            "--rollout.max_new_tokens=18",
            "--rollout.batch_size=4",
            "--rollout.n_samples_per_prompt=4",
            "--rollout.micro_batch_size=16",
            "--train.batch_size=16",
            "--train.micro_batch_size=16",
            "--train.seed=0",
            "--actor.adam.lr=1e-3",
            "--actor.lr_scheduler=constant",
            "--actor.lr_warmup_ratio=0",  # otherwise the first step has a learning rate of 0
            "--algo.advantage.estimator=group_norm",
            "--algo.kl.init_coef=0",  # no reference policy
            "--ds.zero_stage=0",
            "--ds.attn_implementation=eager",
            f"--ckpt.path={self.folder / 'checkpoints'}",
            f"--ckpt.output_dir={self.folder / 'model'}",
            "--ckpt.load_enable",
            f"--logger.tensorboard_dir={self._logs}",
        ]


def run_openrlhf(folder: Path, timeout: float = HANGS_AFTER_S, **arguments: Any) -> Result:
    """Start, wait, and read the logs; arguments as of `OpenRLHFRun`."""
    with OpenRLHFRun(folder, **arguments) as run:
        return run.wait(timeout)


def check_openrlhf(
    folder: Path, module: str, arguments: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    """Start up to the argument check, after which the folder contains `args.json`.

    See `standins.openrlhf.check`.
    """
    path = folder / "path"
    path.mkdir()
    for name in ("check.py", "flash_attn", "vllm"):
        (path / name).symlink_to(_STANDINS / name)
    (path / "standins").symlink_to(_STANDINS.parent)
    script = [str(path / "check.py"), str(folder / "args.json")]
    return subprocess.run(
        [*_warm_python().split(), *script, module, *arguments],
        cwd=folder,
        env={
            **inherited(),
            **_IMPORT_SETTINGS,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "PYTHONPATH": str(path),
        },
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
        check=False,
    )


def _warm_python() -> str:
    """Return a replacement for `python` that has torch and DeepSpeed imported."""
    return client_command(warm_server(_MODULES, tuple(_IMPORT_SETTINGS.items())))


def write_rows(path: Path, data: Sequence[Row]) -> None:
    """Write a JSON lines file in OpenRLHF's format."""
    path.write_text("".join(json.dumps(dict(row)) + "\n" for row in data))
