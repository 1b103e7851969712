"""The engine: the calls that an adapter makes, the plugins, and a run's state and journal."""
