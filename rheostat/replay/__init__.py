"""`rheostat replay`: decides recorded steps again, from the cluster's inputs topic or from a file."""
