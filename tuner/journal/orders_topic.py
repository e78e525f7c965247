"""What people order is in a topic of its own, beside the journal's: orders, and plans of reassignments with their parts.

So an operator who may pause needs to write there only, and nothing in that topic can say what is rheostat's own in the cluster.
The tuner writes there only to take away what has ended: the parts of plans, and plans that are forgotten.
"""

from __future__ import annotations

_KINDS = (b"orders|", b"plan|", b"plan-part|")


def orders_topic_of(journal: str) -> str:
    """``rheostat.journal`` → ``rheostat.orders``."""
    return journal.removesuffix(".journal") + ".orders"


def is_order(key: bytes) -> bool:
    """Returns whether a record with this key belongs into the orders' topic. No other record that stands there is read."""
    return key.startswith(_KINDS)
