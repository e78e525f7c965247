"""What benchmarks.control is made of."""
