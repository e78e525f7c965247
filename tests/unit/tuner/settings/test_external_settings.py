"""The sections vetoes and webhooks of the settings file: each fault is named with its key and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rheostat.config.change_watch import RELOADABLE, ConfigWatch, changed_keys
from rheostat.config.settings import load_settings, parse_settings
from rheostat.errors import BadInputError

GOOD = """\
cluster: main
kafka:
  bootstrap_servers: localhost:9092
stream:
  checkpoint_dir: /var/lib/rheostat
tuner:
  rate_bytes_per_s_max: 50_000_000
"""
VETO = """\
  vetoes:
    - name: latency
      prometheus: http://prometheus:9090
      query: up
      above: 1
"""
WEBHOOK = """\
  webhooks:
    - name: chat
      url: https://chat.example.org/in
      secret_file: /etc/secret
"""


def fault(text: str) -> str:
    with pytest.raises(BadInputError) as caught:
        parse_settings(GOOD + text, "f.yaml", {})
    return str(caught.value)


def test_sections_have_careful_defaults() -> None:
    tuner = parse_settings(GOOD + VETO + WEBHOOK, "f.yaml", {}).tuner
    (veto,), (hook,) = tuner.vetoes, tuner.webhooks
    assert (veto.effect, veto.interval_s, veto.timeout_s) == ("hold", 15, 5)
    assert (veto.answer_valid_s, veto.unknown_hold_s) == (60, 300)
    assert hook.events == ("found", "stalled", "acted", "done")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("http://prometheus:9090", "prometheus:9090", "f.yaml:10: tuner.vetoes[0].prometheus: expected a URL such as"),
        ("http://prometheus:9090", "file:///etc/passwd", "f.yaml:10: tuner.vetoes[0].prometheus: expected a URL"),
        ("http://prometheus:9090", "http://kim:pw@prometheus", "veto latency: the URL contains a login"),
        ("http://prometheus:9090", "http://prometheus:x", "f.yaml:10: tuner.vetoes[0].prometheus: expected a URL"),
        ("http://prometheus:9090", "http://a/#b", "f.yaml:10: tuner.vetoes[0].prometheus: the URL ends with a fragment"),
        ("http://prometheus:9090", "http://prometheus/?a=b", "veto latency: prometheus is the address of the server, without"),
        ("above: 1", "above: .nan", "f.yaml:12: tuner.vetoes[0].above: "),
        ("above: 1", "above: 1\n      below: 0", "veto latency: set only one of the limits above and below"),
        ("above: 1", "url: http://x/", "veto latency needs either url or prometheus"),
        ("      query: up\n", "", "veto latency: prometheus and query: set both, or neither"),
        ("above: 1", "effect: raise", "f.yaml:12: tuner.vetoes[0].effect: input should be 'hold' or 'lower'"),
        ("above: 1", "lower_to_bytes_per_s: 5MB/s", "veto latency: lower_to_bytes_per_s applies only with effect: lower"),
        ("above: 1", "interval_s: 2m", "veto latency: answer_valid_s (60 s) must be longer than interval_s (120 s)"),
        ("above: 1", "token_file: /t", "veto latency: a token needs an address that begins with https://"),
        ("https://chat.example.org/in", "chat", "f.yaml:15: tuner.webhooks[0].url: expected a URL such as"),
        ("secret_file: /etc/secret", "timeout_s: 1", "webhook chat needs either secret_file or secret_variable"),
        ("secret_file: /etc/secret", "secret_file: /s\n      events: []", "tuner.webhooks[0].events: "),
        ("secret_file: /etc/secret", "secret_file: /s\n      events: [moved]", "tuner.webhooks[0].events[0]: input should be 'found'"),
        ("secret_file: /etc/secret", "secret_file: /s\n    - {name: chat, url: 'https://x/', secret_file: /s}", "webhooks has several entries with the name chat"),
    ],
)  # fmt: skip
def test_fault_of_a_section_names_its_key(old: str, new: str, expected: str) -> None:
    text = VETO + WEBHOOK
    assert old in text
    assert expected in fault(text.replace(old, new))


def test_changed_checks_and_receivers_apply_on_sighup() -> None:
    before, after = (parse_settings(GOOD + text, "f.yaml", {}) for text in ("", VETO + WEBHOOK))
    assert changed_keys(before, after) == ["tuner.vetoes", "tuner.webhooks"]
    assert {"tuner.vetoes", "tuner.webhooks"} <= RELOADABLE


def test_bad_url_is_not_reloaded_and_old_settings_stay(tmp_path: Path) -> None:
    file = tmp_path / "rheostat.yaml"
    file.write_text(GOOD + VETO)
    settings = load_settings(file, {})
    watch = ConfigWatch(file, {}, settings, lambda: 1_000.0)
    file.write_text(GOOD + VETO.replace("http://", "htp://"))
    watch.reload()
    assert not watch.waiting()
    file.write_text(GOOD)
    watch.reload()
    assert watch.waiting()
    assert watch.take().tuner.vetoes == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("url: cc", "f.yaml:8: tuner.cruise_control.url: expected a URL"),
        ("url: 'http://kim:pw@cc/'", "cruise_control: the URL contains a login"),
        ("url: 'http://cc/', user: kim", "cruise_control: user and password_file: set both, or neither"),
        ("url: 'http://cc/', user: kim, password_file: /p", "cruise_control: a password needs a url that begins with https://"),
        ("url: 'http://cc/', movements_per_broker_min: 11", "movements_per_broker_min is above movements_per_broker_max"),
        ("url: 'http://cc/', concurrency: on", "tuner.cruise_control.concurrency: input should be 'watch' or 'act'"),
    ],
)  # fmt: skip
def test_fault_of_cruise_control_names_its_key(text: str, expected: str) -> None:
    message = fault(f"  cruise_control: {{{text}}}\n")
    assert expected in message
    assert "kim:pw" not in message
