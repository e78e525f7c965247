"""A made-up cluster that obeys throttles as Kafka does, driven by the production loop. No I/O; the seed is an argument.

Belongs here: the physics (quota, fetchers, load, latency), the loop's ports in simulated time, the optimum to compare with.
Does not: any judgement about throttles. The laws are tuner/control's, or a rival's that is handed in.
"""
