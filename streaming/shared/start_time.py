"""The time from the stream's start to its first signals, as messages state it.

In this time Spark starts a JVM, plans the query and fills its first window. Shared machines with few cores need the longest time.
"""

USUAL = "30 to 60 s"
LONGEST_S = 120.0  # A longer start means that something is wrong.
