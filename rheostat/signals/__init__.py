"""`rheostat signals`: shows the live signals that a tuner would use."""
