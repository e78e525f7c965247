"""Garbage collection settings for brokers of a benchmark.

The lab's own collector and heap are made for small clusters. With 1,600 partitions they stop a broker for 0.25 to 1.5 s at a time,
with 200 moving partitions for up to 2 s, and all its clients wait.
"""

HEAP_MB = 1_200
JAVA_OPTIONS = ("-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")

# As operators run them: compiled by both compilers, and with all of their heap from the start. A goal of 20 ms has five of them on
# two cores collect once a second each, and answers of a megabyte are larger than half of the smallest regions: a third of all
# records that waited had waited for that. What compiles while something is measured is in the way as well: run it first.
# A broker that has run for weeks has what it always keeps in the old generation, and all of its heap's pages. One that has just
# begun copies that at each of its first fifteen collections: for 50 to 130 ms, and 25 to 40 where two are enough for it to be old.
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
