"""Benchmarks on real parts. Each prints a table for people and, with ``--json``, one JSON object; each figure comes with the
bound it is measured against. ``python -m benchmarks`` runs them all."""
