"""Builds the parts of the tuner from its settings, mostly for one leadership term."""
