"""`prompt-coevo smoke`: short real trainings with one adapter, one table row per variant."""
