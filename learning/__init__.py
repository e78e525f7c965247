"""Learns from the history of a cluster: forecasts of load, the usual latency of clients, capacities, and lasting changes."""
