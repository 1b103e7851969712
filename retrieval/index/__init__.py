"""An index: its files, and how to build and open it."""
