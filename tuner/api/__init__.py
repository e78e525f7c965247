"""What others see of the tuner over HTTP: metrics, health, status. Reads one snapshot, changes nothing."""
