"""New candidates: where they come from, which checks they must pass, how they are scored."""
