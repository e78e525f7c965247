"""Random worlds for the mutation quota policy: late or wrong signals, an operator who changes quotas, and writes that fail.

``World`` checks the guarantees to operators after every step.
"""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st
from mutation_rig import START_MS, controller, tenant

from streaming.shared.contract import ControllerSignal, TenantSignal
from tuner.control.mutation_quota.decision import RestoreQuota, SetQuota
from tuner.control.mutation_quota.entity import DEFAULT, QuotaEntity, Tenant, find_quota_in_force
from tuner.control.mutation_quota.model import MutationPolicy, QuotaView, TenantRule
from tuner.control.mutation_quota.ownership import note_confirmed_write, note_pending_write
from tuner.control.mutation_quota.policy import step
from tuner.control.mutation_quota.state import MutationMemory
from tuner.core.cluster import ClusterUnreadable
from tuner.core.controller import ClusterWideMeasures

NAMES = [Tenant("alice"), Tenant("bob"), Tenant("carol", "app"), Tenant("dave", "app")]
PEOPLE = [
    QuotaEntity("alice"),
    QuotaEntity("bob"),
    QuotaEntity(DEFAULT),
    QuotaEntity("carol", "app"),
    QuotaEntity(DEFAULT, "app"),
]

# Mostly healthy, so that the policy writes quotas and the operator has quotas to change.
books = st.tuples(
    st.none() | st.floats(0, 1e4), st.sampled_from([-5.0, -5.0, 1e20, 3.0, None]), st.sampled_from([1, 1, 1, 2])
)
events = st.fixed_dictionaries(
    {
        "late_s": st.sampled_from([0, 0, 0, 0, 0, 4, 20, 90, -40]),
        "node": st.sampled_from([1, 1, 1, 1, 2]),
        "active": st.sampled_from([1.0, 1.0, 1.0, 1.0, 1.0, 0.0, None]),
        "idle": st.sampled_from([0.9, 0.9, 0.4, 0.0, 1.1, None]),
        "queue": st.sampled_from([1.0, 1.0, 400.0, 9e4, None]),
        "partitions": st.sampled_from([100.0, 1_900.0, 3_000.0, None]),
        "heartbeats": st.sampled_from([0.0, 0.0, 0.0, 0.5]),
        "tenants": st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, books)),
        "person": st.tuples(st.sampled_from([None, *PEOPLE]), st.sampled_from([None, 0.5, 7.0, 900.0])),
        "fails": st.sampled_from([False, False, True]),
        "unseen": st.sampled_from([False, False, False, False, True]),
        "passes_s": st.sampled_from([5, 5, 40, 40, 4_000]),
    }
)
policies = st.builds(
    MutationPolicy,
    rules=st.sampled_from(
        [
            (),
            (
                TenantRule(user="a*", weight=3.0),
                TenantRule("carol", "*", rate_per_s_min=5.0),
                TenantRule("bob", exempt=True),
            ),
        ]
    ),
    adopt_existing=st.booleans(),
    default_entity=st.sampled_from([None, QuotaEntity(DEFAULT)]),
    partitions_max=st.sampled_from([None, 2_000]),
)


class World:
    """A cluster's quotas; the policy changes some of them, and an operator others."""

    def __init__(self, policy: MutationPolicy, standing: dict[QuotaEntity, float]) -> None:
        self.policy = policy
        self.quotas = dict(standing)
        self.meant = dict(standing)  # The quotas that remain after a release.
        self.memory = MutationMemory()
        self.now_ms = START_MS
        self.theirs_at_ms: dict[QuotaEntity, int] = {}

    def step(self, event: dict[str, Any]) -> None:
        if event["person"][0] is not None:
            self._person(*event["person"])
        at_ms = self.now_ms - event["late_s"] * 1000
        news: dict[int, ControllerSignal] = {
            event["node"]: controller(
                at_ms, node=event["node"], active=event["active"], idle=event["idle"], queue=event["queue"],
                partitions=event["partitions"], late=event["heartbeats"],
            )
        }  # fmt: skip
        of_tenants: list[TenantSignal] = [
            tenant(at_ms, rate, tokens, node=node, user=name.user, client_id=name.client_id)
            for name, (rate, tokens, node) in event["tenants"].items()
        ]
        before = self.memory
        quotas = ClusterUnreadable("no answer") if event["unseen"] else dict(self.quotas)
        view = QuotaView(self.now_ms, quotas, news, tuple(of_tenants), ClusterWideMeasures())
        made = step(view, before, self.policy)
        assert made == step(view, before, self.policy), "a decision depends on its values alone"
        self.memory = made.memory
        self._checked(made.decisions, event, at_ms)
        for decision in made.decisions:
            self.written(decision, fails=event["fails"])
        self.now_ms += event["passes_s"] * 1000

    def set_back(self, back_s: int) -> None:
        """Sets the clock back."""
        held = {entity: at_ms for entity, at_ms in self.theirs_at_ms.items() if self.now_ms - at_ms < 3_600_000}
        self.now_ms -= back_s * 1000
        self.theirs_at_ms = {entity: min(at_ms, self.now_ms) for entity, at_ms in held.items()}

    def _person(self, entity: QuotaEntity, value: float | None) -> None:
        _put(self.quotas, entity, value)
        ours = self.memory.owned.get(entity)
        if ours is None:
            _put(self.meant, entity, value)
            self._noted(entity, value)
        elif any(_same(value, may_stand) for may_stand in ours.possible_per_s):
            # The operator set the tuner's own value, which cannot be told apart from the tuner's write.
            _put(self.meant, entity, ours.before_per_s)
            self.theirs_at_ms.pop(entity, None)
        else:
            _put(self.meant, entity, value)
            self.theirs_at_ms[entity] = self.now_ms

    def _noted(self, entity: QuotaEntity, value: float | None) -> None:
        """Notes an operator's value for a quota that is not managed.

        A value that was not there at the last snapshot is externally owned from now on; values before the first snapshot are not. A
        second change of an externally owned value ends the hold.
        """
        if entity in self.memory.externally_owned_until_ms:
            return
        if (
            self.memory.quotas_were_read
            and value is not None
            and not _same(value, self.memory.unowned_per_s.get(entity))
        ):
            self.theirs_at_ms[entity] = self.now_ms
        else:
            self.theirs_at_ms.pop(entity, None)

    def _checked(self, decisions: Any, event: dict[str, Any], at_ms: int) -> None:
        blind = abs(self.now_ms - at_ms) > 15_000 or event["active"] != 1.0
        unmeasured = event["idle"] is None and event["queue"] is None
        unmeasured |= event["partitions"] is None and self.policy.partitions_max is not None
        for decision in decisions:
            if not isinstance(decision, SetQuota):
                continue
            entity, stands = decision.entity, self.quotas.get(decision.entity)
            assert decision.current_per_s == stands
            assert decision.setpoint_per_s >= 0.1, "Kafka refuses 0, and a tiny quota is a debt of hours"
            assert self.now_ms - self.theirs_at_ms.get(entity, 0) >= 3_600_000, "externally owned"
            assert stands is None or entity in self.memory.owned or self.policy.adopt_existing, "preserved"
            # An exempt tenant only gets the quota that exempts it from a managed default.
            assert entity.user != "bob" or not self.policy.rules or decision.setpoint_per_s == 1e9, "exempt"
            if blind or unmeasured:
                held = stands if stands is not None else self._in_force(entity)
                assert held is not None, "without signals no quota is added"
                assert decision.setpoint_per_s < held, "without signals no quota is raised"

    def _in_force(self, entity: QuotaEntity) -> float | None:
        found = next((find_quota_in_force(self.quotas, name) for name in NAMES if name.entity == entity), None)
        return found[1] if found is not None else None

    def written(self, decision: Any, *, fails: bool) -> None:
        self.memory = note_pending_write(self.memory, decision)
        if fails:
            return  # Also a crash: the intent is recorded, and the quota is unchanged.
        match decision:
            case SetQuota(entity=entity, setpoint_per_s=value) | RestoreQuota(entity=entity, value_per_s=float(value)):
                self.quotas[entity] = value
            case RestoreQuota(entity=entity):
                self.quotas.pop(entity, None)
        self.memory = note_confirmed_write(self.memory, decision)


def _put(quotas: dict[QuotaEntity, float], entity: QuotaEntity, value: float | None) -> None:
    if value is None:
        quotas.pop(entity, None)
    else:
        quotas[entity] = value


def _same(found: float | None, value: float | None) -> bool:
    """Compares quotas with a tolerance, because Kafka returns doubles as decimals."""
    return found is value if found is None or value is None else math.isclose(found, value, rel_tol=1e-9)
