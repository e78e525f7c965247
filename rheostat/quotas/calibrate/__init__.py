"""`rheostat quotas calibrate`: measures what the controller sustains, and proposes a mutation quota (KIP-599)."""
