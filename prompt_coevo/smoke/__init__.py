"""`prompt-coevo smoke`: short real trainings of one door, a row a variant."""
