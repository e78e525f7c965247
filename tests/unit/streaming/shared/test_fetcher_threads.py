"""Names of fetcher threads in a follower's metrics."""

from __future__ import annotations

from streaming.shared.fetcher_threads import client_id, read_client_id


def test_fetcher_client_id_is_written_and_read() -> None:
    assert client_id(3, 12) == "ReplicaFetcherThread-3-12"
    assert read_client_id("ReplicaFetcherThread-3-12") == (3, 12)
    assert read_client_id("ReplicaAlterLogDirsThread-0") is None
