"""Which move is asked for, and whether its brokers are there for it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rheostat.errors import BadInputError
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
    """One of the four."""

    add: Sequence[int] = ()
    drain: Sequence[int] = ()
    replace: Sequence[str] = ()  # "2=5".
    rebalance: bool = False
    tolerance: float | None = None

    def check(self) -> None:
        """
        Raises:
            BadInputError: naming the option; no cluster is needed to see it.
        """
        given = [
            name
            for name, value in (
                ("--add-broker", self.add),
                ("--drain-broker", self.drain),
                ("--replace", self.replace),
                ("--rebalance", self.rebalance),
            )
            if value
        ]
        if len(given) != 1:
            found = " and ".join(given) if given else "none"
            raise BadInputError(f"expected one of --add-broker, --drain-broker, --replace, --rebalance; found {found}")
        if self.tolerance is not None and (self.drain or self.replace):
            raise BadInputError(f"--tolerance: {given[0]} evens nothing out; leave it out")
        for name, brokers in (("--add-broker", self.add), ("--drain-broker", self.drain)):
            twice = sorted({b for b in brokers if list(brokers).count(b) > 1})
            if twice:
                raise BadInputError(f"{name}: broker {twice[0]} is given twice")
        self.pairs()

    def pairs(self) -> dict[int, int]:
        """Old → new of ``replace``.

        Raises:
            BadInputError: naming the one that is wrong.
        """
        found: dict[int, int] = {}
        for text in self.replace:
            parts = _PAIR.fullmatch(text)
            if parts is None:
                raise BadInputError(f"--replace: expected OLD=NEW such as 2=5, found {text!r}")
            old, new = int(parts[1]), int(parts[2])
            if old in found:
                raise BadInputError(f"--replace: broker {old} is given twice")
            found[old] = new
        both = sorted(found.keys() & set(found.values()))
        if both:
            raise BadInputError(f"--replace: broker {both[0]} can't be replaced and take another's place at once")
        return found

    def check_brokers(self, alive: Collection[int], known: Collection[int]) -> None:
        """
        Args:
            known: alive, or hosting something.

        Raises:
            BadInputError: naming the broker that there is not.
        """
        for name, wanted, there, state in (
            ("--add-broker", self.add, alive, "alive"),
            ("--drain-broker", self.drain, known, "there"),
            ("--replace", self.pairs(), known, "there"),
            ("--replace", self.pairs().values(), alive, "alive"),
        ):
            for broker in wanted:
                if broker not in there:
                    listed = ", ".join(map(str, sorted(there)))
                    raise BadInputError(f"{name}: broker {broker} is not {state}: expected one of {listed}")
        if self.add and not set(alive) - set(self.add):
            raise BadInputError("--add-broker: there is no other broker that could give anything")
        if self.drain and not set(alive) - set(self.drain):
            raise BadInputError("--drain-broker: no broker that is alive would be left to take anything")

    def planned(self, ground: BrokerLoads) -> GeneratedPlan:
        """
        Raises:
            NoPlace: the limits leave no room for it.
        """
        tolerance = TOLERANCE if self.tolerance is None else self.tolerance
        if self.add:
            return extend_to_brokers(ground, self.add, tolerance)
        if self.drain:
            return drain_brokers(ground, self.drain)
        return replace_brokers(ground, self.pairs()) if self.replace else rebalance(ground, tolerance)
