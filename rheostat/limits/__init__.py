"""`rheostat limits`: partition limits (KIP-578). command.py is the file to read first."""
