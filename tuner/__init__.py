"""The tuner: a process that observes the cluster, decides, writes throttles, quotas and reassignments, and journals each decision.

``app.py`` starts it. ``runtime/throttle/loop.py`` is the cycle of the throttle controller and the file to read first. ``core/``,
``control/`` and ``planning/`` are pure: values in, values out, without Kafka, clock or random numbers. The tuner needs no JVM.
"""
