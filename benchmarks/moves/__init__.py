"""What benchmarks/move.py is made of."""
