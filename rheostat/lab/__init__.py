"""A real Kafka cluster on this machine, for the demo, the tests and experiments.

Real brokers, never a mock: KRaft, one JVM a node, the JMX agent with our rules on each, loopback only.
``cluster.py`` is the lab itself; ``load.py`` and ``tools.py`` run Kafka's own programs against it; ``keeper.py`` keeps
one up between two commands.
"""
