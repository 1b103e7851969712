"""The engine: the calls of an adapter, the plugins, and a run's state and journal."""
