"""The record of every decision, and of what is ours, in a topic of the cluster itself.

``entries.py`` is the form, pure; ``kafka_journal.py`` the topic. Whatever is written to the cluster is on record before.
"""
