"""The rights that rheostat needs on a cluster with ACLs, as a table, and the commands that grant them."""
