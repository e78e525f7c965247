"""Cordons in the status and on the page: what is cordoned, and whose it is."""

from __future__ import annotations

from api_rig import Rig
from prometheus_client import CollectorRegistry

from streaming.shared.cordons import BrokerCordon, CordonSource
from tuner.api.cordon_status_store import CordonCollector, CordonStatusStore
from tuner.control.cordon.model import CordonMemory, CordonStep, OwnedCordon
from tuner.core.cordon_state import CordonState

BROKERS = {
    1: BrokerCordon(("/a", "/b")),
    2: BrokerCordon(("/a", "/b"), ("/b",), CordonSource.FILE),
    3: BrokerCordon(("/a", "/b"), ("/b", "/a"), CordonSource.BROKER),
    4: BrokerCordon(("/<b>",), ("*",), CordonSource.CLUSTER_DEFAULT),
}
MEMORY = CordonMemory({3: OwnedCordon("p-1", ("/a",), ("/b",), is_written=True), 1: OwnedCordon("p-1", ())})


def test_status_and_page_name_each_cordon_and_its_owner() -> None:
    rig = Rig()
    rig.cordons.publish(CordonStep((), MEMORY, CordonState(), BROKERS))
    rows = rig.get("/api/v1/status").json()["cordons"]
    assert [(row["broker"], row["whole_broker"], row["managed"], row["externally_owned"]) for row in rows] == [
        (2, False, [], ["/b"]),
        (3, True, ["/a"], ["/b"]),
        (4, True, [], ["*"]),
    ]
    assert [row["plan"] for row in rows] == [None, "p-1", None]
    assert [row["text"] for row in rows] == [
        "Broker 2 has cordoned log directories: /b by the broker's properties file.",
        "Broker 3 is cordoned: /a by rheostat for plan p-1; /b by another tool.",
        "Broker 4 is cordoned: all directories by another tool, for all brokers.",
    ]
    page = rig.get("/page/now").text
    assert "<h3>Cordons</h3>" in page
    assert "Broker 3 is cordoned: /a by rheostat for plan p-1; /b by another tool." in page


def test_metric_counts_directories_by_owner() -> None:
    store = CordonStatusStore()
    registry = CollectorRegistry()
    registry.register(CordonCollector(store, "c"))
    assert [*next(iter(registry.collect())).samples] == []
    unknown = {5: BrokerCordon((), ("*",), CordonSource.BROKER)}
    owned = CordonMemory({**MEMORY.owned, 5: OwnedCordon("p-1", ("*",), is_written=True)})
    store.publish(CordonStep((), owned, CordonState(), {**BROKERS, **unknown}))
    counts = {tuple(s.labels.values()): s.value for m in registry.collect() for s in m.samples}
    assert counts == {
        ("c", "2", "external"): 1,
        ("c", "3", "rheostat"): 1,
        ("c", "3", "external"): 1,
        ("c", "4", "external"): 1,
        ("c", "5", "rheostat"): 1,
    }


def test_standby_shows_no_cordons() -> None:
    rig = Rig()
    rig.cordons.publish(CordonStep((), MEMORY, CordonState(), BROKERS))
    rig.cordons.clear()
    assert rig.get("/api/v1/status").json()["cordons"] == []
    assert "<h3>Cordons</h3>" not in rig.get("/page/now").text
