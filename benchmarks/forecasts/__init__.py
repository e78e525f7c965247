"""The parts of benchmarks.forecast."""
