"""The collector: reads brokers' metrics and writes them to the metrics topic, for clusters without a metrics pipeline.

``loop.py`` runs the rounds; ``jmx.py`` reads one node's agent; ``admin.py`` reads the cluster; ``facts.py`` turns its answers into
samples. The collector uses no Spark, so it is a small process that can run next to the brokers.
"""
