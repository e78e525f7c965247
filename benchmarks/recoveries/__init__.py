"""The parts of benchmarks.recovery."""
