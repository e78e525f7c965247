"""What benchmarks.forecast is made of."""
