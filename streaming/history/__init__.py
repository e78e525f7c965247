"""History: means over ten minutes, which batch jobs of the stream compute from the signals topic.

worker.py runs a pass every ten minutes, in the session of the live query. A pass (passes.py) finds the periods that have new
signals, and recomputes each of them from all of its signals (periods.py). So a period depends only on the signals in the topic:
repeated passes, restarts, duplicates and late signals of an outage lead to the same record.
"""
