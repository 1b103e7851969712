"""Code that the adapters for the training frameworks share."""
