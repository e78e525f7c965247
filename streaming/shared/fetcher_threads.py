"""Names of fetcher threads in a follower's metrics."""

from __future__ import annotations

import re

_CLIENT_ID = re.compile(r"ReplicaFetcherThread-(\d+)-(\d+)")


def client_id(fetcher: int, leader: int) -> str:
    """Returns the name of the thread in the follower's metrics."""
    return f"ReplicaFetcherThread-{fetcher}-{leader}"


def read_client_id(text: str) -> tuple[int, int] | None:
    """Returns the thread and the leader; None if the text names no fetcher thread."""
    match = _CLIENT_ID.fullmatch(text)
    return None if match is None else (int(match[1]), int(match[2]))
