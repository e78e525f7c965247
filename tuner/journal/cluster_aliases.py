"""Collects the journal's records that have a cluster name other than the configured one.

The journal is stored in the Kafka cluster that it describes, so every cluster name in it is a name (alias) of that one cluster.
Lease, fence and memory are keyed by the name. Without this check, a change of ``cluster`` in the settings would have one of two
effects: a second tuner would act beside the first tuner, or the new tuner would treat the old tuner's throttles as externally owned
and leave them in place.

Invariant: the tuner never acts on records of another name. It only reports the settings that these records name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tuner.journal.entries import RINGS
from tuner.journal.presence_records import KIND as PRESENCE
from tuner.journal.replayed_state import ReplayedState
from tuner.journal.unreadable import OLDER_VERSION

# Records of these kinds show that the name is in use, but they name no setting in the cluster.
_KINDS_WITHOUT_HOLDINGS = ("orders", "holder")


class ClusterAliases:
    """Collects the records of all cluster names except the configured one."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._states: dict[str, ReplayedState] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._states))

    def holdings_by_name(self, brokers: Collection[int] | None = None) -> Mapping[str, str]:
        """Returns for each name, as text, the settings that it still has in the cluster. A name without settings is absent.

        Args:
            brokers: the live brokers; throttles of other brokers are left out, as they cannot be removed. None means all brokers.
        """
        holdings = {}
        for name, state in sorted(self._states.items()):
            blocking = next((record for record in state.unreadable.values() if record.blocks), None)
            if blocking is None:
                text = describe_holdings(state, brokers)
            elif blocking.is_older:
                text = f"{OLDER_VERSION}, which must end its moves first (docs/how-to/upgrade.md)"
            else:
                text = (
                    f"a record that this version cannot read ({blocking.text()}): the version that wrote the record can read it; "
                    "if no version wrote it, `rheostat journal repair` repairs it"
                )
            if text:
                holdings[name] = text
        return holdings

    def apply(self, key: bytes, value: bytes | None, offset: int | None = None) -> None:
        """Applies one record, if it belongs to another cluster name."""
        kind, _, rest = key.decode(errors="replace").partition("|")
        name = rest.partition("|")[0]
        # Entries and presence records name no setting in the cluster, and may remain long after a cluster name was given up.
        if not name or name == self._cluster or kind in (*RINGS, PRESENCE):
            return
        state = self._states.setdefault(name, ReplayedState(name))
        if kind not in _KINDS_WITHOUT_HOLDINGS:
            state.apply(key, value, offset)


def describe_holdings(state: ReplayedState, brokers: Collection[int] | None = None) -> str:
    """Returns as text the settings that a tuner has not removed, and its unfinished plans; empty if there are none.

    Args:
        brokers: as in ``ClusterAliases.holdings_by_name``.
    """
    memory = state.memory
    sides = [side for side in memory.owned if brokers is None or side[0] in brokers]
    to_clear = [broker for broker in memory.brokers_to_clear if brokers is None or broker in brokers]
    log_dirs = [broker for broker in state.log_dirs.owned if brokers is None or broker in brokers]
    cordons = [broker for broker in state.cordons.brokers if brokers is None or broker in brokers]
    # A plan without any requested step has changed nothing in the cluster.
    begun = [plan for plan in state.plans.plans if plan.state.ending is None and plan.requested]
    counts = (
        (len(sides), "throttle", "throttles"),
        (len(memory.listed), "topic's throttled replicas", "topics' throttled replicas"),
        (len(to_clear), "broker to be cleared", "brokers to be cleared"),
        (len(log_dirs), "log directory throttle", "log directory throttles"),
        (len(cordons), "cordoned broker", "cordoned brokers"),
        (len(state.quotas.owned), "mutation quota", "mutation quotas"),
        (len(begun), "plan under way", "plans under way"),
        (len(state.plans.unreadable_plans), "plan of another version", "plans of another version"),
    )
    return ", ".join(f"{count} {singular if count == 1 else plural}" for count, singular, plural in counts if count)
