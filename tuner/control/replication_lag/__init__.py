"""Explains why replicas lag in normal replication. It changes nothing. Read judge.py first."""
