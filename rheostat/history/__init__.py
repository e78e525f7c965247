"""`rheostat history`: the load of each broker in the last days, from the history topic."""
