"""A simulated cluster that obeys throttles as Kafka does, driven by the production loop. No I/O; the seed is an argument.

The package contains the physics (quota, fetchers, load, latency), the loop's ports in simulated time, and the optimum for
comparison. It contains no decisions about throttles: those come from tuner/control, or from a rival policy that is passed in.
"""
