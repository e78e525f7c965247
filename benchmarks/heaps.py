"""How the brokers of a benchmark collect memory: as they do by default, and with room for what the benchmark gives them.

The lab's own collector and heap are made for small clusters: with 1,600 partitions they stop a broker for a quarter of a second to
one and a half at a time, with 200 that move for up to two, and whoever creates a topic or writes waits with it.
"""

HEAP_MB = 1_200
JAVA_OPTIONS = ("-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
