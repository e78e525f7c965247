"""`rheostat quotas measure`: lets Kafka count the mutations of each tenant for a bounded time."""
