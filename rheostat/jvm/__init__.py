"""Finds Java, and provides the pinned JVM artifacts. Starts no Kafka and no Spark."""
