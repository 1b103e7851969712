"""Define a world of questions about two words each, with a base policy of 157 000 parameters."""
