"""The parts of benchmarks.scale."""
