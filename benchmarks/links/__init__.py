"""The parts of benchmarks.cluster."""
