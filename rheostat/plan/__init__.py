"""`rheostat plan`: what a move takes, before it begins. command.py is the file to read first."""
