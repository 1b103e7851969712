"""`prompt-coevo smoke`: short real trainings of one adapter, a row a variant."""
