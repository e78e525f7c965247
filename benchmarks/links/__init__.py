"""What benchmarks.cluster is made of."""
