"""`rheostat throttles`: every replication throttle of the cluster, and the removal of those that serve nothing."""
