"""What co-evolution came to, as texts in the host's own experiment trackers."""
