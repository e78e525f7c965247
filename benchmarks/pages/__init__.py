"""What the benchmark of the page and the tests of the page share: a tuner that one can look at, without a cluster."""
