"""`rheostat limits`: partition limits (KIP-578). Read command.py first."""
