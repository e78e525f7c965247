"""The lab: a real Kafka cluster on this machine, for the demo, the tests and experiments.

The lab has real brokers, never a mock: KRaft, one JVM per node, a JMX agent with rheostat's rules in each, on loopback only.
``cluster.py`` starts and stops a lab; ``load.py`` and ``tools.py`` run Kafka's own programs against it; ``keeper.py`` keeps a lab
running between two commands.
"""
