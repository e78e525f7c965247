"""The journal: a Kafka topic that records every decision and everything that rheostat set in the cluster.

``entries.py`` defines the records and does no I/O. ``kafka_journal.py`` reads and writes the topic.
The tuner records a change in the journal before it writes the change to the cluster.
"""
