"""Checks the request of `rheostat plan generate`, and generates the plan: add, drain, replace or rebalance."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rheostat.errors import BadInputError
from streaming.shared import kafka_names
from tuner.planning.broker_load import BrokerLoads
from tuner.planning.generate import (
    TOLERANCE,
    GeneratedPlan,
    drain_brokers,
    extend_to_brokers,
    rebalance,
    replace_brokers,
)

_PAIR = re.compile(r"(\d{1,9})=(\d{1,9})")


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Exactly one of add, drain, replace and rebalance.

    Attributes:
        replace: pairs of brokers as text, "2=5" for 2 by 5.
        cordon: whether the plan cordons the brokers that it empties.
        tolerance: the permitted difference between a broker and the mean of all brokers, as a share of the mean (0 to 1); None
            means the default.
    """

    add: Sequence[int] = ()
    drain: Sequence[int] = ()
    replace: Sequence[str] = ()
    rebalance: bool = False
    cordon: bool = False
    tolerance: float | None = None

    def check(self) -> None:
        """Checks the options without a cluster.

        Raises:
            BadInputError: naming the option that is wrong.
        """
        options = [
            name
            for name, value in (
                ("--add-broker", self.add),
                ("--drain-broker", self.drain),
                ("--replace", self.replace),
                ("--rebalance", self.rebalance),
            )
            if value
        ]
        if len(options) != 1:
            found = " and ".join(options) if options else "none"
            raise BadInputError(
                f"Give exactly one of --add-broker, --drain-broker, --replace, --rebalance; found {found}."
            )
        if self.tolerance is not None and (self.drain or self.replace):
            raise BadInputError(f"--tolerance: {options[0]} does not rebalance: leave --tolerance out")
        if self.cordon and not (self.drain or self.replace):
            raise BadInputError(f"--cordon: {options[0]} empties no broker: leave --cordon out")
        for option, brokers in (("--add-broker", self.add), ("--drain-broker", self.drain)):
            duplicates = sorted({b for b in brokers if list(brokers).count(b) > 1})
            if duplicates:
                raise BadInputError(f"{option}: broker {duplicates[0]} is given twice")
        self.pairs()  # Raises an error for a wrong pair.

    def pairs(self) -> dict[int, int]:
        """Returns the new broker of each old broker in ``replace``.

        Raises:
            BadInputError: naming the pair or broker that is wrong.
        """
        new_by_old: dict[int, int] = {}
        for text in self.replace:
            parts = _PAIR.fullmatch(text)
            if parts is None:
                raise BadInputError(f"--replace: expected OLD=NEW such as 2=5, found {text!r}")
            old, new = int(parts[1]), int(parts[2])
            if old in new_by_old:
                raise BadInputError(f"--replace: broker {old} is given twice")
            new_by_old[old] = new
        old_and_new = sorted(new_by_old.keys() & set(new_by_old.values()))
        if old_and_new:
            raise BadInputError(
                f"--replace: broker {old_and_new[0]} cannot be replaced and be a replacement at the same time"
            )
        return new_by_old

    @property
    def cordoned(self) -> tuple[int, ...]:
        """The brokers that the plan will cordon: the brokers that it empties, if ``cordon`` is set."""
        return tuple(sorted({*self.drain, *self.pairs()})) if self.cordon else ()

    def check_brokers(self, alive: Collection[int], known: Collection[int], cordoned: Collection[int] = ()) -> None:
        """Checks that the brokers of the request exist, and that brokers which get replicas are not cordoned.

        Args:
            known: brokers that are alive or host a replica.
            cordoned: brokers that are cordoned now, so that they take no new replicas.

        Raises:
            BadInputError: naming the broker that does not exist, is not alive, or is cordoned.
        """
        for option, brokers, allowed, problem in (
            ("--add-broker", self.add, alive, "is not alive"),
            ("--drain-broker", self.drain, known, "does not exist"),
            ("--replace", self.pairs(), known, "does not exist"),
            ("--replace", self.pairs().values(), alive, "is not alive"),
        ):
            for broker in brokers:
                if broker not in allowed:
                    choices = ", ".join(map(str, sorted(allowed)))
                    raise BadInputError(f"{option}: broker {broker} {problem}: expected one of {choices}")
        for option, brokers in (("--add-broker", self.add), ("--replace", self.pairs().values())):
            for broker in brokers:
                if broker in cordoned:
                    raise BadInputError(
                        f"{option}: broker {broker} is cordoned, so it takes no new replicas: lift the cordon "
                        f"({kafka_names.CORDONED_LOG_DIRS}), or name another broker"
                    )
        if self.add and not set(alive) - set(self.add):
            raise BadInputError("--add-broker: there is no other broker to move data from")
        if self.drain and not set(alive) - set(self.drain):
            raise BadInputError("--drain-broker: no living broker would be left to move the data to")
        if self.drain and not set(alive) - set(self.drain) - set(cordoned):
            raise BadInputError("--drain-broker: every other living broker is cordoned, so no broker can take the data")

    def generate(self, loads: BrokerLoads) -> GeneratedPlan:
        """Returns the plan; changes ``loads`` to the state after the plan.

        Raises:
            NoPlacementError: the limits leave no room for a replica.
        """
        tolerance = TOLERANCE if self.tolerance is None else self.tolerance
        if self.add:
            return extend_to_brokers(loads, self.add, tolerance)
        if self.drain:
            return drain_brokers(loads, self.drain)
        if self.replace:
            return replace_brokers(loads, self.pairs())
        return rebalance(loads, tolerance)
