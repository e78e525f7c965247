"""I/O in: the signals topic, and the cluster's live settings. Failures come back as values."""
