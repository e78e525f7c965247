"""Orders in the journal's topic: key ``orders|<cluster>``, one JSON value, the last one wins.

Written by the program that a person runs, not by the tuner, and so outside its transactions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from streaming.contract import Side
from tuner.model.orders import Orders, Override, Pause

VERSION = 1


def orders_key(cluster: str) -> bytes:
    return f"orders|{cluster}".encode()


def encode_orders(orders: Orders) -> bytes:
    return json.dumps(orders_body(orders)).encode()


def orders_body(orders: Orders) -> dict[str, Any]:
    pause = orders.pause
    return {
        "v": VERSION,
        "at_ms": orders.at_ms,
        "by": orders.by,
        "pause": None if pause is None else [pause.since_ms, pause.by, pause.released],
        "resumed_at_ms": orders.resumed_at_ms,
        "overrides": [[b, s.value, o.bytes_per_s, o.until_ms, o.by] for (b, s), o in sorted(orders.overrides.items())],
    }


def decode_orders(value: bytes) -> Orders:
    """
    Raises:
        ValueError: not orders of a version we read. To go on without knowing whether one is to pause would be to ignore it.
    """
    return orders_of(json.loads(value))


def orders_of(body: Mapping[str, Any]) -> Orders:
    """Raises ValueError as ``decode_orders``."""
    try:
        if body["v"] != VERSION:
            raise ValueError(f"version {body['v']}, this program reads {VERSION}")
        pause = body["pause"]
        overrides = {
            (int(b), Side(s)): Override(int(rate), int(until), by) for b, s, rate, until, by in body["overrides"]
        }
        return Orders(
            at_ms=int(body["at_ms"]),
            pause=None if pause is None else Pause(int(pause[0]), str(pause[1]), bool(pause[2])),
            resumed_at_ms=int(body["resumed_at_ms"]),
            overrides=overrides,
            by=str(body.get("by", "")),
        )
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not a record of orders of this version: {error!r}") from error
