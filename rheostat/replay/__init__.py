"""`rheostat replay`: repeats recorded decisions, with the inputs from the cluster's inputs topic or from a file."""
