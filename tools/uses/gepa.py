"""A small run without a trainer, whose templates the package gepa searches for."""

import importlib.util

from prompt_coevo.testing.scripted_run import Run, World, script

settings = {"p2o": {"search_backend": "gepa", "search_budget": 200, "dev_size": 6, "tau": 0.5}}
run = Run(World(settings)).calls(script())
assert importlib.util.find_spec("litellm"), "gepa comes without a reflection model"
assert run.replies, "no search asked for a template"
print(f"{run.replies} reflection calls, {len(run.texts)} templates")
