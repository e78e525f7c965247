"""`rheostat signals`: shows the live signals as the tuner sees them."""
