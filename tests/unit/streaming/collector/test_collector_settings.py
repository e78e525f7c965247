"""The collector's settings refuse invalid values, and no message shows a password."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from streaming.collector.settings import CollectorSettings


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"endpoints": {1: "broker-1:7071/metrics"}}, "the URL of node 1 is not http(s)://host:port/path"),
        ({"endpoints": {1: "http:///metrics"}}, "the URL of node 1 is not"),
        ({"endpoints": {1: "http://broker-1:70710/metrics"}}, "the URL of node 1 is not"),
        ({"endpoints": {1: "https://me:hush@broker-1:7071/"}}, "contains a user or password: use username and password_file"),
        ({"tls_cert_file": "a.pem"}, "tls_cert_file and tls_key_file: set both, or neither"),
        ({"username": "me"}, "username and password_file: set both, or neither"),
        ({"username": "a:b", "password_file": "f"}, "username contains a colon"),
        ({"scrapes_at_once": 1}, "greater than or equal to 2"),
        ({"jmx_scheme": "ftp"}, "'http' or 'https'"),
    ],
)  # fmt: skip
def test_settings_refuse_invalid_values_without_showing_secrets(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        CollectorSettings(**given)
    assert said in str(caught.value)
    assert all("hush" not in fault["msg"] for fault in caught.value.errors())


def test_agent_urls_from_port_and_endpoints() -> None:
    settings = CollectorSettings(jmx_port=7071, jmx_scheme="https", endpoints={2: "http://b:1/m", 100: "https://c/m"})
    assert settings.agent_urls({1: "a.example", 2: "b.example", 3: "2001:db8::3"}) == {
        1: "https://a.example:7071/metrics",
        2: "http://b:1/m",
        3: "https://[2001:db8::3]:7071/metrics",
        100: "https://c/m",
    }
    assert CollectorSettings().agent_urls({1: "a"}) == {}


@pytest.mark.parametrize(
    ("interval_s", "timeout_s", "spread_s", "nodes", "fitting_s"),
    [
        (5, 2, 2, 1000, 2),
        (5, 2, 60, 1000, 3),
        (1, 2, 2, 1000, 0),
        (5, 2, 0, 1000, 0),
        (5, 2, 2, 20, 2),
        (5, 2, 2, 4, 0.4),
        (5, 2, 0.3, 4, 0.3),
        (5, 2, 2, 0, 0),
    ],
)
def test_spread_s_fits_number_of_nodes_and_timeout(
    interval_s: float, timeout_s: float, spread_s: float, nodes: int, fitting_s: float
) -> None:
    settings = CollectorSettings(interval_s=interval_s, timeout_s=timeout_s, spread_s=spread_s)
    assert settings.spread_s_fitting(nodes) == pytest.approx(fitting_s)
