"""KIP-73's test plan on real brokers: a move keeps to the quota that rheostat holds, and is fast when rheostat controls the rate.

The plan's clusters have 100 partitions with two replicas each after the move. Data moves from one node to another, from one to
two, and from two to one, each also while clients write. Data, quota and fetch sizes are scaled to one machine.

held    The operator starts the move with a throttle, and ``rheostat override`` holds every broker at the quota. The moved
        bytes come close to the quota less the writes, and exceed it over no 12 s; the brokers' own metrics agree.
free    The same move with an objective: time ÷ T*. Loopback has no limit, so T* divides by the capacity in rheostat's settings,
        up to the share that the tuner may fill; benchmarks.cluster uses real links.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest
from kip73_kit import (
    CASES,
    LINK,
    QUOTA,
    WRITTEN,
    Case,
    MeasuredMove,
    filled,
    held,
    move,
    no_throttles_left,
    parts,
    standing,
)
from lab_parts import rheostat, until

from rheostat.errors import EXIT_DONE, EXIT_NOT_ACKNOWLEDGED
from streaming.shared.kafka.cluster import ClusterClient
from tuner.control.throttle.objective import ControlLimits
from tuner.core.throttle_limits import MB

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(600)]

HELD_BYTES, FREE_BYTES = 640 * MB, 1_500 * MB
# So low that most is still to move when a slow machine has acknowledged the override, and that what passes while a hundred replicas are
# made is a small lump; and what an operator would think of.
HELD_FROM, FREE_FROM = 1 * MB, 6 * MB
LEAST, MOST = 0.9, 1.05
RATIO_MAX = 1.25


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[list[Sequence[str]]]:
    rows: list[Sequence[str]] = [
        ("case", "moved ÷ (quota − inbound)", "fullest 12 s", "byte-rate ÷ quota", "time ÷ T*")
    ]
    yield rows
    plugins = request.config.pluginmanager
    reporter, capture = plugins.getplugin("terminalreporter"), plugins.getplugin("capturemanager")
    assert reporter is not None
    assert capture is not None
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    with capture.global_and_fixture_disabled():
        reporter.section("KIP-73's test plan")
        for row in rows:
            reporter.write_line("   ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)))


# -- the plan ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_moving_bytes_stay_within_fixed_quota(case: Case, table: list[Sequence[str]]) -> None:
    with (
        filled(case, HELD_BYTES) as lab,
        ClusterClient(lab.kafka_settings(), "test") as client,
        parts(lab, "tune", cycle_s=1),
        MeasuredMove(lab, case) as seen,
    ):
        for broker in range(1, case.brokers + 1):
            given = rheostat(
                "override",
                "--yes",
                "--config",
                lab.home / "rheostat.yaml",
                "--broker",
                str(broker),
                "--throttle",
                f"{QUOTA // MB}MB/s",
                timeout_s=180,
            )
            # The tuner may be starting still, and then begins with what is on record.
            assert given.returncode in (EXIT_DONE, EXIT_NOT_ACKNOWLEDGED), given.stderr
        move(lab, case, HELD_FROM)

        def overridden() -> bool:
            setting = standing(client).rates.get(case.paced)
            return setting is not None and setting.bytes_per_s == QUOTA

        until(overridden, 120, "the override holds", every_s=0.5)
        held_since_s = time.monotonic()
        until(lambda: not client.reassignments(), 240, "the move ends", every_s=1.0)
        until(lambda: no_throttles_left(client), 90, "nothing is left", every_s=1.0)
    steady, highest_12_s_ratio, own_byte_rate_ratio = (
        seen.steady(held_since_s),
        seen.highest_12_s_ratio(),
        seen.own_byte_rate_ratio(held_since_s),
    )
    table.append((case.name, f"{steady:.3f}", f"{highest_12_s_ratio:.3f}", f"{own_byte_rate_ratio:.3f}", ""))
    assert LEAST <= steady <= MOST
    assert LEAST <= own_byte_rate_ratio <= MOST
    assert highest_12_s_ratio <= MOST


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_move_is_fast_when_tuner_controls_the_rate(case: Case, table: list[Sequence[str]]) -> None:
    capacity = {"in_bytes_per_s": LINK, "out_bytes_per_s": LINK}
    # On shared cores latency says more about the machine than about replication.
    free = {"objective": {"latency_ms": 5_000}, "capacity": capacity, "rate_bytes_per_s_max": LINK}
    with (
        filled(case, FREE_BYTES) as lab,
        ClusterClient(lab.kafka_settings(), "test") as client,
        parts(lab, "collect", "stream", "tune", **free) as supervisor,
    ):
        # Steering begins with signals, and the first take Spark some time.
        log = lab.home / "logs" / "rheostat.log"
        until(lambda: "first batch" in log.read_text(errors="replace"), 120, "signals come")
        to_move = sum(held(lab, leader, p) for p, leader in case.leaders.items())
        move(lab, case, FREE_FROM)
        began_s = time.monotonic()

        def done() -> bool:
            supervisor.check()
            return not client.reassignments()

        until(done, 300, "the move ends", every_s=0.5)
        took_s = time.monotonic() - began_s
        until(lambda: no_throttles_left(client), 90, "nothing is left", every_s=1.0)
    written = WRITTEN if case.writes else 0
    # Out of the paced leader go the writes to in-sync followers as well; into a node come those of clients who write to it.
    room = ControlLimits().utilisation_max * LINK - (1 + case.in_sync) * written
    optimum_s = to_move / room
    table.append((case.name, "", "", "", f"{took_s / optimum_s:.2f} ({took_s:.0f} s)"))
    assert took_s <= RATIO_MAX * optimum_s
