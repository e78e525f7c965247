"""`rheostat plan`: estimates how long a reassignment takes (estimate/), and generates plans of reassignments (generate/)."""
