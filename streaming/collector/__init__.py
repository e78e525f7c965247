"""Broker → metrics topic, for clusters that have no metrics pipeline yet.

``loop.py`` is the cycle; ``jmx.py`` reads one node's agent; ``admin.py`` asks the cluster; ``facts.py`` turns the
answers into samples and is pure. No Spark here: a small process that can run next to the brokers.
"""
