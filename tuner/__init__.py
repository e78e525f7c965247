"""Judges and acts: observe → decide → plan → actuate → journal, once a cycle.

``loop.py`` is the cycle and the file to read first; ``app.py`` builds everything it needs. ``model/``, ``decide/`` and
``plan/`` are pure: values in, values out; no Kafka, clock or random. Starts without a JVM.
"""
