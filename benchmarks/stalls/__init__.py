"""What benchmarks.stall is made of."""
