"""The orders topic: operators' orders, and reassignment plans with their parts.

The orders topic is separate from the journal, so that an operator who may pause the tuner needs no write access to the journal. No
record of the orders topic can claim that rheostat manages a setting in the cluster. The tuner itself only deletes records of the
orders topic: the parts of ended plans, and old plans as a whole.
"""

from __future__ import annotations

_KINDS = (b"orders|", b"plan|", b"plan-part|")


def orders_topic_of(journal: str) -> str:
    """Returns the name of the orders topic: ``rheostat.journal`` → ``rheostat.orders``."""
    return journal.removesuffix(".journal") + ".orders"


def is_order(key: bytes) -> bool:
    """Returns whether a record with this key belongs in the orders topic. Readers ignore all other records there."""
    return key.startswith(_KINDS)
