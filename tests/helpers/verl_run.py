"""Runs the unmodified `python -m verl.trainer.main_ppo` on a CPU, with the stand-ins, and reads its logs.

    result = run_verl(tmp_path, train=rows(TASKS), overrides=["+coevo=p2o"])
    assert result.returncode == 0, result.tail

A run's checkpoints are in its folder; every start writes logs of its own, so that a second start in
the same folder, with `trainer.resume_mode=auto`, resumes. Only one may run at a time on a small machine.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from helpers.trl_world import TASKS, WORLD
from helpers.warm_python import client_command, server_command
from prompt_coevo.demo.model import base_policy_path
from prompt_coevo.demo.world import Task, spell

_TESTS = Path(__file__).parents[1]
_COMMAND = (sys.executable, "-m", "verl.trainer.main_ppo")
_RUN_MARKER = "COEVO_TEST_RUN"
_PR_SET_PDEATHSIG = 1

__all__ = ["TASKS", "WORLD", "Result", "VerlRun", "rows", "run_verl", "write_rows"]

Row = Mapping[str, Any]


def rows(tasks: Iterable[Task] = TASKS) -> list[Row]:
    """The demo's questions as `run_verl` takes them."""
    return [
        {
            "prompt": [{"role": "user", "content": task.question}],
            "ground_truth": spell(task.answer),
        }
        for task in tasks
    ]


@dataclass(frozen=True)
class Result:
    """What a start left behind."""

    returncode: int | None
    """Negative if a signal ended it, None if it runs still."""

    output: str
    """stdout and stderr of the driver, in which Ray also prints what the workers print."""

    server: list[dict[str, Any]]
    """The stand-in server's events, see `standins.verl.server`."""

    actor: list[dict[str, Any]]
    """The rows the loss got, see `standins.verl.recorder`."""

    metrics: dict[int, dict[str, float]]
    """Step to VeRL's metrics."""

    folder: Path
    """The run's folder; checkpoints are in `checkpoints/`."""

    seconds: float

    @property
    def tail(self) -> str:
        """The end of the output, without the ends of long lines."""
        return "\n".join(line[:200] for line in self.output.splitlines()[-60:])

    def generated(self) -> list[dict[str, Any]]:
        return [event for event in self.server if event["event"] == "generate"]

    def weights(self) -> list[dict[str, Any]]:
        return [event for event in self.server if event["event"] == "weights"]


class VerlRun:
    """One start of the trainer. `wait`, `kill_when` or `kill` must end it; it is a context manager."""

    def __init__(
        self,
        folder: Path,
        train: Sequence[Row] | None = None,
        val: Sequence[Row] | None = None,
        overrides: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        model: Path | None = None,
        warm: bool = True,
    ) -> None:
        """Write the data and start. Later overrides win over earlier ones and over the defaults.

        A row is `{"prompt": chat, "ground_truth": text}` with, if wanted, `data_source`, `extra_info`,
        and more columns. Without `train` the demo's 8 hard questions are taken, without `val` the
        first 2 rows of `train`. `warm` forks Ray's workers from a process with torch imported, see
        `helpers.warm_python`: half the time.
        """
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._logs = folder / f"start{len(list(folder.glob('start*')))}"
        self._logs.mkdir()
        train = rows() if train is None else train
        write_rows(self._logs / "train.parquet", train)
        write_rows(self._logs / "val.parquet", train[:2] if val is None else val)
        self._ray = Path(tempfile.mkdtemp(prefix="rv", dir="/tmp"))  # socket paths have to be short
        self._processes: list[subprocess.Popen[bytes]] = []
        self._started = time.monotonic()
        environment = self._environment(env or {})
        arguments = self._overrides(model)
        if warm:
            socket = self._ray / "python"
            arguments.append(
                f"++ray_kwargs.ray_init.runtime_env.py_executable='{client_command(socket)}'"
            )
            self._processes.append(self._popen(server_command(socket), environment))
        self._process = self._popen([*_COMMAND, *arguments, *overrides], environment)
        self._processes.append(self._process)

    def wait(self, timeout: float = 300) -> Result:
        """Wait for its end. Raises TimeoutError, with the end of the output, after killing it."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"no end after {timeout} s:\n{self.result().tail}") from None
        self._clean_up()
        return self.result()

    def kill_when(self, moment: Callable[[VerlRun], bool], timeout: float = 300) -> Result:
        """Kill everything with SIGKILL as soon as `moment(run)` holds; it may read the run's logs.

        Raises TimeoutError if it never does, and RuntimeError if the trainer ends before.
        """
        deadline = time.monotonic() + timeout
        while not moment(self):
            if self._process.poll() is not None:
                self._clean_up()
                raise RuntimeError(f"it ended before the moment to kill it:\n{self.result().tail}")
            if time.monotonic() > deadline:
                self.kill()
                raise TimeoutError(f"the moment never came:\n{self.result().tail}")
            time.sleep(0.02)
        self.kill()
        return self.result()

    def kill(self) -> None:
        """SIGKILL to the trainer and to all of its Ray processes."""
        self._clean_up()

    def result(self) -> Result:
        """What there is to read by now."""
        return Result(
            returncode=self._process.poll(),
            output=self._output.read_text(errors="replace"),
            server=self.server_log(),
            actor=self.actor_log(),
            metrics=self.metrics(),
            folder=self.folder,
            seconds=time.monotonic() - self._started,
        )

    def server_log(self) -> list[dict[str, Any]]:
        return _read(self._logs / "server.jsonl")

    def actor_log(self) -> list[dict[str, Any]]:
        return _read(self._logs / "actor.jsonl")

    def metrics(self) -> dict[int, dict[str, float]]:
        return {line["step"]: line["data"] for line in _read(self._logs / "metrics.jsonl")}

    def __enter__(self) -> VerlRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._clean_up()

    @property
    def _output(self) -> Path:
        return self._logs / "output.txt"

    def _popen(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        with self._output.open("ab") as output:
            return subprocess.Popen(
                command,
                cwd=self._logs,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def _environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        path = self._logs / "path"  # not tests/ itself, whose verl/ is no package to import
        path.mkdir()
        for name in ("helpers", "standins"):
            (path / name).symlink_to(_TESTS / name)
        inherited = {
            name: value
            for name, value in os.environ.items()
            # A dozen processes that each compile all of torch's Python files take minutes.
            if name != "PYTHONDONTWRITEBYTECODE" and not name.startswith(("PROMPT_COEVO_", "RAY_"))
        }
        return {
            **inherited,
            "PYTHONPATH": str(path),
            "VERL_PLATFORM": "cpu",
            "VERL_USE_EXTERNAL_MODULES": "standins.verl.plugin",
            "VERL_FILE_LOGGER_PATH": str(self._logs / "metrics.jsonl"),
            "COEVO_TEST_SERVER_LOG": str(self._logs / "server.jsonl"),
            "COEVO_TEST_ACTOR_LOG": str(self._logs / "actor.jsonl"),
            _RUN_MARKER: self._ray.name,
            "CUDA_VISIBLE_DEVICES": "0",  # Ray counts them before it hands out the one that is not there
            "HF_HUB_OFFLINE": "1",
            "HYDRA_FULL_ERROR": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OMP_NUM_THREADS": "1",
            "RAY_DEDUP_LOGS": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "disabled",  # else it writes a token into the home folder
            "RAY_prestart_worker_first_driver": "0",  # else one idle worker per logical CPU
            "TMPDIR": str(self._ray),  # where VeRL leaves locks of checkpoints
            "TOKENIZERS_PARALLELISM": "false",
            "TQ_NUM_THREADS": "1",  # with more than there are cores it warns at every call
            **extra,
        }

    def _overrides(self, model: Path | None) -> list[str]:
        actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
        precision = f"+{actor}.fsdp_config.mixed_precision"
        ray_init = "+ray_kwargs.ray_init"
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
            "ray_kwargs.ray_init.num_cpus=32",  # logical; with 8 the placement group never comes
            f"{ray_init}.num_gpus=1",
            f"{ray_init}.include_dashboard=False",
            f"{ray_init}.object_store_memory=200000000",
            f"{ray_init}._temp_dir={self._ray}",
        ]

    def _clean_up(self) -> None:
        """Kill what is left of the run, wherever Ray put it, and remove Ray's files."""
        deadline = time.monotonic() + 20
        while left := self.left_over():
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if time.monotonic() > deadline:
                raise RuntimeError(f"processes {left} of the run do not end")
            time.sleep(0.05)
        for process in self._processes:
            process.wait()
        shutil.rmtree(self._ray, ignore_errors=True)

    def left_over(self) -> list[int]:
        """Living processes of the run.

        They are in one of its sessions, have its marker in their environment (some overwrite it with
        their title), or write into Ray's folder.
        """
        marker = f"{_RUN_MARKER}={self._ray.name}".encode()
        sessions = {process.pid for process in self._processes}
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdecimal() or int(folder.name) == os.getpid():
                continue
            try:
                state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
                ours = (
                    int(session) in sessions
                    or marker in (folder / "environ").read_bytes()
                    or os.readlink(folder / "fd" / "1").startswith(str(self._ray))
                )
            except OSError:  # gone, a kernel thread, or not ours to look at
                continue
            if ours and state not in "ZX":
                found.append(int(folder.name))
        return found


def run_verl(folder: Path, timeout: float = 300, **arguments: Any) -> Result:
    """Start, wait, and read the logs; arguments as of `VerlRun`."""
    with VerlRun(folder, **arguments) as run:
        return run.wait(timeout)


def write_rows(path: Path, data: Sequence[Row]) -> None:
    """A parquet file in VeRL's format."""
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


def _die_with_parent() -> None:
    """Ask Linux to kill this process when the tests are killed; Ray's daemons follow their driver."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _read(path: Path) -> list[dict[str, Any]]:
    """Complete lines; the last one may still be under way."""
    if not path.exists():
        return []
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
