"""`rheostat replay`: the recorded inputs put through today's decisions, from the cluster or from a file."""
