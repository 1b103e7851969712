"""One folder per paper, each a method like any other, chosen by name."""
