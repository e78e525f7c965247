"""`rheostat throttles`: shows every replication throttle of the cluster, and removes throttles that serve nothing."""
