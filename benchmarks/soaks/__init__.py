"""The parts of benchmarks.soak: what it does to a cluster, and what it measures."""
