"""A second world, of many facts: what a word means is two skills at once, and 24 of 40 words are hard."""
