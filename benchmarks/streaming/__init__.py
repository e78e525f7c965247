"""What benchmarks.pipeline is made of."""
