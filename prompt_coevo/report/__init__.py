"""The results of a run, read from its files alone, for the HTML page and the command line."""
