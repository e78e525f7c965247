"""Commands for mutation quotas (KIP-599). None of them changes the cluster."""
