"""The sentences and rows of the page's part about the controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tuner.core.mutation_rates import Bound, MutationSource

_SOURCES = {
    MutationSource.PARTITION_COUNT: "changes of the number of partitions from one sample to the next",
    MutationSource.TOPIC_COUNT: "changes of the number of topics from one sample to the next",
    MutationSource.REQUEST_COUNT: "answered requests of the last half minute, refused ones included",
    MutationSource.QUOTA_ACCOUNTS: "Kafka's measurements of all tenants together, a mean over 30 to 60 s",
}
_BOUNDS = {
    Bound.EXACT: "",
    Bound.AT_LEAST: "; the true rate is higher if clients created and deleted some between two samples",
    Bound.AT_MOST: "; the true rate is lower, because this node counts twice each request that it forwards to itself",
}
_PREFIXES = {Bound.EXACT: "", Bound.AT_LEAST: "at least ", Bound.AT_MOST: "at most "}
_RATES = (
    ("mutations", "Partitions created and deleted"),
    ("partitions_created", "Partitions created"),
    ("partitions_deleted", "Partitions deleted"),
    ("topics_created", "Topics created"),
    ("topics_deleted", "Topics deleted"),
)
_REQUESTS = {
    "CreateTopics": "Requests to create topics",
    "DeleteTopics": "Requests to delete topics",
    "CreatePartitions": "Requests to add partitions",
}


def rate_rows(mutations: Mapping[str, Any]) -> list[dict[str, str]]:
    """Returns the rows of the table of rates.

    Args:
        mutations: the values of ``/api/v1/mutations``.
    """
    return [*_count_rows(mutations), *_request_rows(mutations)]


def load_sentence(mutations: Mapping[str, Any]) -> str:
    """Returns one sentence about the load of the controller, without the measures that are unknown."""
    parts = []
    if mutations["idle_ratio"] is not None:
        parts.append(f"is idle {100 * min(1.0, max(0.0, mutations['idle_ratio'])):.0f} % of the time")
    if mutations["event_queue_ms"] is not None:
        parts.append(f"begins to process an event after {mutations['event_queue_ms']:.1f} ms in its queue")
    if mutations["requests_in_progress"] is not None:
        parts.append(f"works on {mutations['requests_in_progress']:.2f} creations and deletions at the same time")
    sentence = f"Controller {mutations['controller']} {_joined(parts)}." if parts else ""
    if mutations["apply_lag_ms"] is not None:
        sentence += (
            f" The slowest node applies metadata {mutations['apply_lag_ms']:.0f} ms late (up to 500 ms is usual)."
        )
    return sentence.strip()


def blame_sentence(mutations: Mapping[str, Any]) -> str:
    """Returns the text about the busiest tenant while there is no storm; empty during a storm, whose own text says more."""
    if mutations["storm"] is not None:
        return ""
    text = "No tenant overloads the controller."
    if not mutations["tenants"]:
        return text
    busiest = mutations["tenants"][0]
    names = [f"{kind} {busiest[key]}" for kind, key in (("user", "user"), ("client-id", "client_id")) if busiest[key]]
    return f"{text} The busiest is {', '.join(names) or 'the default tenant'}, with {plain(busiest['per_s'])} partitions/s."


def old_client_sentences(mutations: Mapping[str, Any]) -> list[str]:
    """Returns a sentence for each kind of request that old clients send."""
    return [
        f"Clients without support for KIP-599 send {100 * request['old_ratio']:.0f} % of the requests "
        f"{request['request']}, in a request version before "
        f"{request['refused_from_version']}. A mutation quota does not refuse these requests: Kafka accepts each of them, "
        "and delays the client's next request."
        for request in mutations["requests"]
        if request["old_ratio"]
    ]


def _count_rows(mutations: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for field, name in _RATES:
        rate = mutations[field]
        if rate is not None:
            yield _row(name, rate, "")


def _request_rows(mutations: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for request in mutations["requests"]:
        mean_ms = request["mean_ms"]
        yield _row(_REQUESTS[request["request"]], request, f"; {mean_ms:.0f} ms each" if mean_ms is not None else "")


def _row(name: str, rate: Mapping[str, Any], addition: str) -> dict[str, str]:
    bound = Bound(rate["bound"])
    return {
        "name": name,
        "value": f"{_PREFIXES[bound]}{plain(rate['per_s'])}",
        "source": f"{_SOURCES[MutationSource(rate['source'])]}{_BOUNDS[bound]}{addition}",
    }


def plain(value: float) -> str:
    """Returns a rate as text, with only as many digits as are useful."""
    return f"{value:.0f}" if value == 0 or value >= 10 else f"{value:.2f}"


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
