"""The settings file: every fault by key and line, nothing silently taken."""

from __future__ import annotations

import pytest

from rheostat.errors import EXIT_BAD_INPUT, BadInputError
from rheostat.reference import reference
from rheostat.resources import conf_file
from rheostat.settings import load_settings, parse_settings

GOOD = """\
cluster: main
kafka:
  bootstrap_servers: localhost:9092
stream:
  checkpoint_dir: /var/lib/rheostat
tuner:
  rate_bytes_per_s_max: 50_000_000
"""


def fault(text: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(BadInputError) as caught:
        parse_settings(text, "f.yaml", environ or {})
    assert caught.value.exit_code == EXIT_BAD_INPUT
    return str(caught.value)


def test_the_shortest_file_and_its_defaults() -> None:
    settings = parse_settings(GOOD, "f.yaml", {})
    assert settings.tuner.rate_bytes_per_s_max == 50_000_000
    assert settings.collector.interval_s == 5
    assert settings.tuner.dry_run is False
    assert settings.topic_names().journal == "rheostat.journal"


def test_the_shipped_file_is_fine_and_starts_dry() -> None:
    assert load_settings(conf_file("rheostat.yaml"), {}).tuner.dry_run is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace("bootstrap_servers", "bootstrap_server"), "f.yaml:3: unknown key kafka.bootstrap_server: did you mean bootstrap_servers?"),
        (GOOD + "  colour: red\n", "f.yaml:8: unknown key tuner.colour: known here: clear_finished, "),
        (GOOD.replace("50_000_000", "fast"), "f.yaml:7: tuner.rate_bytes_per_s_max: input should be a valid number"),
        (GOOD.replace("50_000_000", "-1"), "f.yaml:7: tuner.rate_bytes_per_s_max: input should be greater than 0, found -1"),
        (GOOD.replace("  rate_bytes_per_s_max: 50_000_000", "  dry_run: true"), "f.yaml:6: tuner.rate_bytes_per_s_max is missing: the ceiling"),
        (GOOD + "  rate_bytes_per_s_min: 60_000_000\n", "rate_bytes_per_s_min (60000000) is above rate_bytes_per_s_max (50000000)"),
        (GOOD.replace("localhost:9092", "localhost:abc"), "f.yaml:3: kafka.bootstrap_servers: expected host:port, or several"),
        (GOOD + "cluster: twice\n", "f.yaml:8: cluster stands twice, first in line 1"),
        (GOOD + "kafka: [\n", "f.yaml:9: not YAML"),
        ("- a list\n", "f.yaml:1: expected keys and values"),
        ("", "cluster is missing"),
        (GOOD.replace("cluster: main", "cluster: a|b"), "f.yaml:1: cluster: string should match pattern"),
        (GOOD.replace("localhost:9092", "x:1\n  security_protocol: SASL_SSL"), "SASL_SSL also needs sasl_mechanism, sasl_username, sasl_password"),
    ],
)  # fmt: skip
def test_a_fault_names_key_line_and_what_was_expected(text: str, said: str) -> None:
    assert said in fault(text)


def test_every_fault_is_told_at_once() -> None:
    told = fault(
        "cluster: main\nkafka: {}\nstream: {checkpoint: x}\ntuner: {rate_bytes_per_s_max: fast}\n"
    ).splitlines()
    assert len(told) == 4


def test_the_environment_wins_and_is_checked_like_the_file() -> None:
    settings = parse_settings(
        GOOD, "f.yaml", {"RHEOSTAT_TUNER__DRY_RUN": "true", "RHEOSTAT_TUNER__HTTP__PORT": "0", "HOME": "/x"}
    )
    assert settings.tuner.dry_run is True
    assert settings.tuner.http.port == 0
    assert "tuner.http.port" in fault(GOOD, {"RHEOSTAT_TUNER__HTTP__PORT": "99999"})
    assert "unknown key tuner.dryrun" in fault(GOOD, {"RHEOSTAT_TUNER__DRYRUN": "true"})


def test_variables_that_only_begin_like_ours_are_not_ours() -> None:
    """Kubernetes makes these of a service named rheostat."""
    others = {
        "RHEOSTAT_SERVICE_HOST": "10.0.0.1",
        "RHEOSTAT_PORT": "tcp://10.0.0.1:9464",
        "RHEOSTAT_PORT_9464_TCP": "x",
    }
    assert parse_settings(GOOD, "f.yaml", others) == parse_settings(GOOD, "f.yaml", {})


def test_a_fault_of_the_environment_names_the_variable() -> None:
    assert "environment: RHEOSTAT_TUNER__DRYRUN: unknown key" in fault(GOOD, {"RHEOSTAT_TUNER__DRYRUN": "true"})
    assert "RHEOSTAT_COLLECTOR__ENDPOINTS" in fault(GOOD, {"RHEOSTAT_COLLECTOR__ENDPOINTS": "{1: "})
    endpoints = parse_settings(GOOD, "f.yaml", {"RHEOSTAT_COLLECTOR__ENDPOINTS": '{"1": "http://a:1/metrics"}'})
    assert endpoints.collector.endpoints == {1: "http://a:1/metrics"}


@pytest.mark.parametrize("password", ["[s3cr3t!k", "{", "", "007"])
def test_a_password_may_be_any_text(password: str) -> None:
    settings = parse_settings(GOOD, "f.yaml", {"RHEOSTAT_KAFKA__SASL_PASSWORD": password})
    assert settings.kafka.sasl_password is not None
    assert settings.kafka.sasl_password.get_secret_value() == password


def test_a_password_is_neither_shown_nor_said() -> None:
    sasl = {
        "RHEOSTAT_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
        "RHEOSTAT_KAFKA__SASL_MECHANISM": "PLAIN",
        "RHEOSTAT_KAFKA__SASL_USERNAME": "me",
        "RHEOSTAT_KAFKA__SASL_PASSWORD": "hush",
    }
    settings = parse_settings(GOOD, "f.yaml", sasl)
    assert "hush" not in settings.model_dump_json()
    assert "hush" not in repr(settings)
    assert settings.kafka.for_python()["sasl_plain_password"] == "hush"
    assert 'password="hush"' in settings.kafka.for_java()["sasl.jaas.config"]
    assert "hush" not in fault(GOOD, {**sasl, "RHEOSTAT_KAFKA__SASL_MECHANISM": "MAGIC"})


def test_a_quote_in_a_password_does_not_end_the_jaas_line() -> None:
    sasl = {"RHEOSTAT_KAFKA__SECURITY_PROTOCOL": "SASL_PLAINTEXT", "RHEOSTAT_KAFKA__SASL_MECHANISM": "PLAIN"}
    sasl |= {"RHEOSTAT_KAFKA__SASL_USERNAME": "me", "RHEOSTAT_KAFKA__SASL_PASSWORD": 'a"b\\c'}
    line = parse_settings(GOOD, "f.yaml", sasl).kafka.for_java()["sasl.jaas.config"]
    assert line.endswith('password="a\\"b\\\\c";')


def test_the_reference_tells_every_key() -> None:
    text = reference()
    for key in ("cluster", "kafka.sasl_password", "collector.endpoints", "stream.checkpoint_dir", "tuner.http.port"):
        assert f"| `{key}` |" in text
