"""ClusterConnection formats: each module turns one format into the common schema of ``common.py``. No state, no windows."""
