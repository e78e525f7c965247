"""The parts of benchmarks.soak: the work that it gives to a cluster, and its measurements."""
