"""`rheostat fetchers`: how Kafka assigns partitions to fetcher threads. Read command.py first."""
