"""The search without phases: every training group of a hard question is an evaluation of templates."""
