"""Garbage collection settings for brokers of a benchmark.

The lab's own collector and heap are made for small clusters. With 1,600 partitions they stop a broker for 0.25 to 1.5 s at a time,
with 200 moving partitions for up to 2 s, and all its clients wait.
"""

HEAP_MB = 1_200
JAVA_OPTIONS = ("-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")

# Settings as in production: both JIT compilers, and the whole heap from the start. With a pause goal of 20 ms five brokers on two
# cores collect once a second each, and responses of a megabyte exceed half of the smallest region. A third of the delayed records
# waited for that. Compilation also delays requests, so a warm-up comes first. A broker that has run for weeks has its long-lived
# objects in the old generation. A new broker copies them in each of its first fifteen collections, for 50 to 130 ms; with a
# tenuring threshold of one it takes 25 to 40 ms.
WARM_HEAP_MB = 2_000
WARM_JAVA_OPTIONS = (
    *JAVA_OPTIONS,
    "-XX:TieredStopAtLevel=4",
    f"-Xms{WARM_HEAP_MB}m",
    "-Xmn1400m",
    "-XX:G1HeapRegionSize=4m",
    "-XX:MaxTenuringThreshold=1",
    "-XX:+AlwaysPreTouch",
)
