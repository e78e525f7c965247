"""The JVM side of the machine: which Java to use, and the pinned artifacts. Starts no Kafka and no Spark."""
