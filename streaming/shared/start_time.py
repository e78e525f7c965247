"""How long the stream takes from its start to its first signals, as people are told while they wait.

Spark starts a JVM, plans the query and fills its first window. Shared machines with few cores take the longer time.
"""

USUAL = "30 to 60 s"
LONGEST_S = 120.0  # After it something is wrong.
