"""Instructions, templates and their lineage as texts in the trainer's experiment trackers."""
