"""Check settings sent to Ray's workers, which lack what the user's own script defines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
import cloudpickle
from prompt_coevo import Method, Section, Settings, registry

class Loud(Section):
    volume: int = 1
    places: int = 2

registry.register("methods", "loud", Method("loud", plugin=object, section=Loud))
settings = Settings(algorithms="loud", plugins={"loud": Loud(volume=7)}, gates={"leak_ngram": 9})
assert settings.section(Loud) == Loud(volume=7)
written = cloudpickle.dumps(settings)
assert cloudpickle.loads(written).section(Loud) == Loud(volume=7)
sys.stdout.buffer.write(written)
"""
WORKER = """
import pickle, sys
settings = pickle.load(sys.stdin.buffer)
print(type(settings).__name__, settings.algorithms, settings.plugins, settings.gates.model_fields_set)
"""


def test_a_worker_reads_settings_whose_method_only_the_users_script_has(tmp_path: Path) -> None:
    """Ray sends by cloudpickle, which would include a class that exists only in `__main__`."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    sent = subprocess.run([sys.executable, script], capture_output=True, check=True).stdout
    assert b"Loud" not in sent
    worker = subprocess.run(
        [sys.executable, "-c", WORKER], input=sent, capture_output=True, check=True
    )
    assert worker.stdout.decode().strip() == (
        "Settings ('loud',) {'loud': {'volume': 7}} {'leak_ngram'}"
    )
