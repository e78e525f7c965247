"""The parts of ``benchmarks.controller``: storms on a real cluster, storms in the simulation, and what a cycle costs."""
