"""Define a world for search agents: facts that only a search can find."""
