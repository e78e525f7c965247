"""Commands for mutation quotas (KIP-599). They change nothing in the cluster."""
