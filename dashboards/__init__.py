"""The Grafana dashboards, the alert rules, and the runbook to which they point.

This package contains queries of the metrics that the processes define, and texts about these metrics. It contains no thresholds
of its own: the tuner judges, and a panel or a rule only repeats the tuner's verdict. build.py generates the JSON, which is
committed.
"""
