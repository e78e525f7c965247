"""`rheostat plan`: how long a reassignment takes (estimate/), and plans for one (generate/)."""
