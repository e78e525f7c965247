"""Simulation tests: worlds in, traces out; no broker, no clock, no random but a world's seed."""
