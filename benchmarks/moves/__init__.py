"""The parts of benchmarks/move.py."""
