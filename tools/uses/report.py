"""A run without a trainer, and its report."""

import subprocess
import sys
from pathlib import Path

from prompt_coevo import Coevolution, Settings
from prompt_coevo.testing.scripted_world import ScriptedPolicy, rule

settings = Settings(reflection={"function": lambda prompt: "<template>k1</template>"})
engine = Coevolution.from_settings(settings, output_dir=Path("run"))
with ScriptedPolicy(rule).open() as policy:
    engine.begin(policy)
    engine.end(policy)
program = Path(sys.executable).with_name("prompt-coevo")
subprocess.run([program, "report", "run", "--out", "report.html"], check=True, capture_output=True)
assert "<html" in Path("report.html").read_text("utf-8")
print("report.html")
