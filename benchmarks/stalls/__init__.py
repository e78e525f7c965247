"""The parts of benchmarks.stall."""
