"""The parts of benchmarks.control."""
