"""A tuner with a status page but without a cluster, for the benchmark and the tests of the page."""
