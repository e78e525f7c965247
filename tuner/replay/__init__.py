"""Decides recorded steps again with today's program; writes nothing.

``recording.py`` reads the records as steps, ``replayer.py`` decides them again, ``compare.py`` finds the differences.
"""
