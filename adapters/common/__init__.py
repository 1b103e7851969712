"""What the adapters for the training frameworks share."""
