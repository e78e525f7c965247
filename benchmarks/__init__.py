"""Benchmarks of the real components.

Each benchmark prints a table and, with ``--json``, one JSON object. Each figure is compared with a bound.
``python -m benchmarks`` runs all of them.
"""
