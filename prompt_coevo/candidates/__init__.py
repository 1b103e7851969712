"""New candidates: where they come from, what they must pass, how they are scored."""
