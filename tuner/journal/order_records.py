"""Encodes operators' orders for the orders topic. The key is ``orders|<cluster>``; the last record of a key is in force.

The operator's command or the API writes these records, so they are outside the tuner's transactions.
"""

from __future__ import annotations

import json
from typing import Any

from tuner.core.operator_orders import ClearedThrottles, Orders, Override, Pause, QuotaTrial
from tuner.journal.bodies import VERSION, ClearedRow, OrdersBody, decode_body


def orders_key(cluster: str) -> bytes:
    return f"orders|{cluster}".encode()


def encode_orders(orders: Orders) -> bytes:
    return json.dumps(orders_body(orders)).encode()


def orders_body(orders: Orders) -> dict[str, Any]:
    pause, cleared = orders.pause, orders.cleared
    return {
        "v": VERSION,
        "at_ms": orders.at_ms,
        "by": orders.by,
        "pause": None if pause is None else [pause.since_ms, pause.by, pause.released],
        "resumed_at_ms": orders.resumed_at_ms,
        "overrides": [[b, s.value, o.bytes_per_s, o.until_ms, o.by] for (b, s), o in sorted(orders.overrides.items())],
        "cleared": None if cleared is None else [cleared.at_ms, cleared.by, list(cleared.settings)],
        "trials": [[t.kind.value, t.at_ms, t.until_ms, t.by, t.total_per_s] for _, t in sorted(orders.trials.items())],
    }


def decode_orders(value: bytes) -> Orders:
    """Returns the orders that a record holds.

    Raises:
        ValueError: as ``decode_body``.
    """
    return orders_of(decode_body(value, OrdersBody))


def orders_of(body: OrdersBody) -> Orders:
    """Returns the orders of a decoded body. Raises ValueError for a body of another version."""
    if body.v != VERSION:
        raise ValueError(f"orders of record version {body.v}, this version of rheostat reads {VERSION}")
    return Orders(
        at_ms=body.at_ms,
        pause=None if body.pause is None else Pause(body.pause.since_ms, body.pause.by, body.pause.released),
        resumed_at_ms=body.resumed_at_ms,
        overrides={(o.broker, o.side): Override(o.bytes_per_s, o.until_ms, o.by) for o in body.overrides},
        by=body.by,
        cleared=_cleared(body.cleared),
        trials={t.kind: QuotaTrial(t.kind, t.at_ms, t.until_ms, t.by, t.total_per_s) for t in body.trials},
    )


def _cleared(row: ClearedRow | None) -> ClearedThrottles | None:
    return None if row is None else ClearedThrottles(row.at_ms, row.by, tuple(row.settings))
