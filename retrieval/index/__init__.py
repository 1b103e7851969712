"""An index: its files, how it is built and opened."""
