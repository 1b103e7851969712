"""The demo with two runs of four steps, from the command line."""

import subprocess
import sys
from pathlib import Path

program = Path(sys.executable).with_name("prompt-coevo")
subprocess.run(
    [program, "demo", "--budget", "768", "--out", "out"], check=True, capture_output=True
)
left = sorted(path.name for path in Path("out").iterdir() if path.is_file())
assert {"demo.png", "results.json", "table.txt"} <= set(left), left
print(", ".join(left))
