"""Simulation tests: no broker, no clock, and no randomness except the seed of a world."""
