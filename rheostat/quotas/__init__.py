"""`rheostat quotas`: what Kafka's mutation quotas do (KIP-599), worked out. Nothing here asks or changes a cluster."""
