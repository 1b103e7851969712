"""What the doors to the training frameworks share."""
