"""Removed names and their replacements. Each entry completes a sentence "NAME was removed: ..."."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_OF_THE_STREAM: Final = (
    "bare_members",
    "calls_per_step",
    "failures_per_call",
    "first_sight",
    "library_size",
    "likeness",
    "proof",
    "reply_steps",
    "trial_members",
)

SETTINGS: Final[Mapping[str, str]] = {
    "distill_band": "it belonged to a ratio mode that learned next to nothing; leave it out",
    "distill_ratio": "old log-probs are always computed on the question; leave it out",
    "hints.distill": "context_distillation = false keeps the hint in the trained prompt",
    "hints.fade_steps": "a hint gets shorter with every success; leave it out",
    "hints.notch": "a hint gets shorter by a quarter of the solution; leave it out",
    "hints.place": "write where the hint goes into hints.layout, as docs/methods.md does",
    "hints.unit": "a solution is cut between words; leave it out",
    "inspo.buffer_bytes": "the replay buffer holds 16 MB of failed completions; leave it out",
    "inspo.buffer_rollouts": "the replay buffer knows the last 100000 rollouts; leave it out",
    "inspo.keep_tags": "every new instruction keeps the XML tags of its parent; leave it out",
    "inspo.trial_share": 'it belonged to inspo.verify = "in_training"; use "blocking"',
    "inspo.trial_steps": 'it belonged to inspo.verify = "in_training"; use "blocking"',
    "p2o.gepa_proposals": (
        'install docs/plugins/gepa and set algorithms = "p2o,gepa" and plugins.gepa.proposals'
    ),
    "p2o.overlap_waves": 'use algorithms = "stream", whose search never stops training',
    "p2o.search_backend": (
        '"waves" is algorithms = ["p2o"], "stream" is algorithms = ["stream"], and "gepa" the package in '
        'docs/plugins/gepa with algorithms = ["p2o", "gepa"]'
    ),
    "p2o.riders": "templates on trial are tried by members of the training groups; leave it out",
    "p2o.likeness_column": "name a function of yours by stream.likeness, as module:attribute",
    "p2o.likeness_encoder": "name a function of yours by stream.likeness, as module:attribute",
    "journal": "a file has 64 MB at most and a text 20000 characters; leave the section out",
    "placement.instruction_layout": (
        "an instruction stands in front of the prompt, with an empty line between; leave it out"
    ),
    "reflection.max_seconds": "set reflection.max_calls, max_total_tokens or max_usd",
    "reflection.warn_at": "the warning comes at 80 % of a budget; leave it out",
    "stream.hardness": (
        "stream judges a question by its members without a template; the paper's measure is p2o.hardness, "
        'with algorithms = ["p2o"]'
    ),
    **{
        f"p2o.{name}": f'it belongs to the method stream; set stream.{name} and algorithms = ["stream"]'
        for name in _OF_THE_STREAM
    },
}
"""By the setting's full name, such as `inspo.verify`."""

HOOKS: Final[Mapping[str, str]] = {
    "coevo_before_candidates_proposed": "coevo_propose gets the same requests",
    "coevo_select_parents": "P2O's search takes the Pareto front; answer coevo_search with one of your own",
    "coevo_settings_model": "offer a Method with a section, whose settings stand under plugins.NAME",
    "coevo_wanted": "ask the policy for rollouts between two steps, by Policy.rollout in coevo_step_end",
    "coevo_observe_riders": "rollouts outside training are what Policy.rollout returns",
}
"""By the hook's name."""

NAMES: Final[Mapping[str, str]] = {
    "analyzers.simple": "build the index with unicode or english",
    "retrievers.hybrid": "build an index with --kind hybrid, or copy docs/examples/hybrid_retriever.py",
    **dict.fromkeys(
        ("likenesses.column", "likenesses.encoder"),
        "name a function of yours as module:attribute, which compares questions by their texts and columns",
    ),
}
"""By the kind of component and its name, such as `retrievers.hybrid`."""

COMMANDS: Final[Mapping[str, str]] = {
    "evolve": (
        "to search for a prompt without training, hand the same task to gepa.optimize "
        "(docs/plugins/gepa/README.md)"
    ),
    "best --json": "`prompt-coevo export` writes it",
    "retrieval serve --max-head-kb": "put a proxy in front of the server (docs/retrieval.md)",
    "retrieval build --option": (
        "write a retriever of your own, which `retrieval serve --retriever NAME --option` serves"
    ),
    "retrieval build --devices": "set CUDA_VISIBLE_DEVICES, such as 0,1, or empty for the CPU",
    **{
        f"retrieval serve --{option}": f"write --set {value}"
        for option, value in (
            ("max-batch", "max_batch=256"),
            ("queue", "max_waiting=65536"),
            ("deadline", "deadline_s=30"),
            ("max-search", "max_search_s=120"),
            ("read-timeout", "read_timeout_s=10"),
            ("max-body-mb", "max_body_bytes=16777216"),
            ("max-connections", "max_connections=4096"),
            ("max-k", "max_k=100"),
            ("max-query-chars", "max_query_chars=10000"),
            ("max-queries", "max_queries=16384"),
            ("allow-host", "allowed_hosts=a.example,b.example"),
            ("allow-origin", "allowed_origins=https://a.example,https://b.example"),
        )
    },
    "demo --full": "name arms and seeds by --arms and --seeds",
}
"""By the words after `prompt-coevo`: a command, or a command and its option."""

MODULES: Final[Mapping[str, str]] = {
    "prompt_coevo.doors": (
        "prompt_coevo.adapters.common; what one adapter alone uses is in its own folder "
        "(CHANGELOG.md has every name)"
    ),
    "prompt_coevo.testing.door": "prompt_coevo.testing.adapter",
    "prompt_coevo.engine.desk": "prompt_coevo.engine.run_context",
    "prompt_coevo.engine.before": "prompt_coevo.engine.preflight",
    "prompt_coevo.preflight.look": "prompt_coevo.preflight.checks",
    "prompt_coevo.candidates.asked": "prompt_coevo.candidates.background",
}
"""New module names by the old ones."""
