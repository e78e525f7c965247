"""`rheostat history`: what each broker carried in the last days, from the history topic."""
