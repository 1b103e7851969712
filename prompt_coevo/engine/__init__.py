"""The engine: the calls of a door, the plugins, and a run's state and journal."""
