"""What came of a run, from its files alone: for the page, and for the command line."""
