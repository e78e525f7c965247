"""The parts of ``benchmarks.controller``: storms on a real cluster, simulated storms, and the cost of a cycle."""
