"""Wire formats: one a file, each a function to the one schema of ``common.py``. No state, no windows."""
