"""Write rates without watching, and the countdown while the logs are watched."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from tuner_cases import NOW_MS, broker_signal

from rheostat.console.countdown import count_down
from rheostat.console.rich_console import Terminal, console_for
from rheostat.plan.write_rates import NoSignalsError, estimate_write_rates
from streaming.shared.contract import BrokerSignal
from tuner.planning.shared_rates import divide_by_size

LEADERS = {("a", 0): 1, ("a", 1): 1, ("b", 0): 2}
SIZES = {("a", 0): 3e9, ("a", 1): 1e9, ("b", 0): 0.0}


def signal(broker: int, client_in: float | None, age_s: float = 3) -> BrokerSignal:
    return replace(broker_signal(broker, age_s=age_s), client_in_bytes_per_s=client_in)


def test_divide_by_size_splits_each_leaders_rate() -> None:
    rates = divide_by_size({1: 8e6, 2: 5e6}, LEADERS, SIZES)
    assert rates == {("a", 0): 6e6, ("a", 1): 2e6, ("b", 0): 5e6}


def test_divide_by_size_empty_logs_share_equally() -> None:
    assert divide_by_size({1: 8e6}, LEADERS, {}) == {("a", 0): 4e6, ("a", 1): 4e6, ("b", 0): 0.0}


def test_estimate_write_rates_reports_age_of_signals() -> None:
    said: list[str] = []
    signals = {1: signal(1, 8e6, age_s=240), 2: signal(2, 5e6)}
    rates = estimate_write_rates(signals, [1, 2, 3], LEADERS, SIZES, said.append, NOW_MS)
    assert rates[("a", 0)] == 6e6
    assert "estimates from signals up to 4 min old" in said[0]
    assert "--measure-for 10s" in said[0]


@pytest.mark.parametrize(
    "signals",
    [{1: signal(1, 8e6)}, {1: signal(1, 8e6), 2: signal(2, None)}, {1: signal(1, 8e6), 2: signal(2, 5e6, age_s=3600)}],
)
def test_estimate_write_rates_missing_broker_is_named(signals: dict[int, BrokerSignal]) -> None:
    with pytest.raises(NoSignalsError, match=r"clients on broker 2.*--measure-for 10s"):
        estimate_write_rates(signals, [1, 2], LEADERS, SIZES, lambda _: None, NOW_MS)


def test_count_down_on_terminal_shows_remaining_time() -> None:
    file, said = io.StringIO(), list[str]()
    screen = Terminal(file=file, force_terminal=True, width=80, _environ={"TERM": "xterm"})
    count_down(0.1, "Watching", said.append, screen)
    assert "Watching: 1 s left" in file.getvalue()
    assert said == []


def test_count_down_elsewhere_is_one_line() -> None:
    file, said = io.StringIO(), list[str]()
    count_down(0.1, "Watching", said.append, console_for(file))
    assert (said, file.getvalue()) == (["Watching, for 0.1 s."], "")
