"""The settings file: every fault is reported with key and line, and nothing is silently accepted."""

from __future__ import annotations

import json

import pytest

from rheostat.config.reference import reference
from rheostat.config.resources import conf_file
from rheostat.config.settings import load_settings, parse_settings
from rheostat.errors import EXIT_BAD_INPUT, BadInputError
from tuner.control.throttle.objective import Capacity, Objective

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


def test_shortest_file_has_defaults() -> None:
    settings = parse_settings(GOOD, "f.yaml", {})
    assert settings.tuner.rate_bytes_per_s_max == 50_000_000
    assert settings.collector.interval_s == 5
    assert settings.topic_names().journal == "rheostat.journal"


def test_shipped_file_is_valid_and_dry_run() -> None:
    assert load_settings(conf_file("rheostat.yaml"), {}).tuner.dry_run is True


@pytest.mark.parametrize(
    ("more", "environ", "expected"),
    [
        ("", {}, (True, True)),
        ("  dry_run: true\n", {}, (True, False)),
        ("  dry_run: false\n", {}, (False, False)),
        ("", {"RHEOSTAT_TUNER__DRY_RUN": "false"}, (False, False)),
        ("", {"RHEOSTAT_TUNER__DRY_RUN": "true"}, (True, False)),
    ],
)
def test_tuner_acts_only_where_dry_run_is_false(
    more: str, environ: dict[str, str], expected: tuple[bool, bool]
) -> None:
    tuner = parse_settings(GOOD + more, "f.yaml", environ).tuner
    assert (tuner.dry_run, tuner.dry_run_by_default) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace("bootstrap_servers", "bootstrap_server"), "f.yaml:3: kafka.bootstrap_server: unknown key: did you mean bootstrap_servers?"),
        (GOOD + "  colour: red\n", "f.yaml:8: tuner.colour: unknown key: known here: capacity, clear_finished, "),
        (GOOD.replace("50_000_000", "fast"), "f.yaml:7: tuner.rate_bytes_per_s_max: expected a rate such as 50MB/s, 1.5GiB/s, 10Gbit/s, or a plain number of bytes/s, found 'fast'"),
        (GOOD.replace("50_000_000", "-1"), "f.yaml:7: tuner.rate_bytes_per_s_max: input should be greater than or equal to 1, found -1"),
        (GOOD.replace("  rate_bytes_per_s_max: 50_000_000", "  dry_run: true"), "f.yaml:6: tuner.rate_bytes_per_s_max: is missing: the ceiling"),
        (GOOD + "  rate_bytes_per_s_min: 60_000_000\n", "rate_bytes_per_s_min (60000000) is above rate_bytes_per_s_max (50000000)"),
        (GOOD.replace("localhost:9092", "localhost:abc"), "f.yaml:3: kafka.bootstrap_servers: expected host:port, or several"),
        (GOOD + "cluster: twice\n", "f.yaml:8: cluster is repeated; it is already in line 1"),
        (GOOD + "limits: &a\n  by_broker: *a\n", "f.yaml:9: limits.by_broker: the alias refers to a value that contains the alias"),
        (GOOD + "kafka: [\n", "f.yaml:9: not YAML"),
        ("- a list\n", "f.yaml:1: expected keys and values"),
        ("", "cluster: is missing"),
        (GOOD.replace("cluster: main", "cluster: a|b"), "f.yaml:1: cluster: string should match pattern"),
        (GOOD.replace("localhost:9092", "x:1\n  security_protocol: SASL_SSL"), "kafka: security_protocol SASL_SSL also needs sasl_mechanism"),
    ],
)  # fmt: skip
def test_fault_names_key_line_and_expected_value(text: str, said: str) -> None:
    assert said in fault(text)


OFF = "  objective: off\n"
OBJECTIVE = GOOD + "  objective: {latency_ms: 50}\n"
CAPACITY = "  capacity: {in_bytes_per_s: 100_000_000, out_bytes_per_s: 125_000_000, brokers: {3: {in_bytes_per_s: 5e7, out_bytes_per_s: 6e7}}}\n"


def test_objective_and_broker_capacity_are_read() -> None:
    tuner = parse_settings(OBJECTIVE + CAPACITY, "f.yaml", {}).tuner
    assert tuner.objective is not None
    assert tuner.capacity is not None
    assert tuner.control_objective() == Objective(50.0)
    assert tuner.limits().closed_loop
    assert tuner.capacity.of(1) == Capacity(100_000_000, 125_000_000)
    assert tuner.capacity.of(3) == Capacity(50_000_000, 60_000_000)
    assert tuner.law_limits().rate_bytes_per_s_max == 50_000_000


def test_existing_throttles_are_adopted_unless_preserve_is_set() -> None:
    assert parse_settings(GOOD, "f.yaml", {}).tuner.limits().adopts_existing
    assert not parse_settings(GOOD + "  existing_throttles: preserve\n", "f.yaml", {}).tuner.limits().adopts_existing


@pytest.mark.parametrize(("more", "throttles"), [("", True), ("  unthrottled_moves: leave\n", False)])
def test_unthrottled_moves_are_throttled_with_an_objective(more: str, throttles: bool) -> None:
    assert parse_settings(OBJECTIVE + CAPACITY + more, "f.yaml", {}).tuner.limits().throttles_all_moves is throttles


def test_unthrottled_moves_throttle_without_objective_is_refused() -> None:
    assert not parse_settings(GOOD + OFF, "f.yaml", {}).tuner.limits().throttles_all_moves
    assert not parse_settings(GOOD + "  unthrottled_moves: leave\n", "f.yaml", {}).tuner.limits().throttles_all_moves
    said = fault(GOOD + OFF + "  unthrottled_moves: throttle\n")
    assert "unthrottled_moves: throttle needs an objective" in said


def test_settings_without_objective_have_no_closed_loop() -> None:
    assert not parse_settings(GOOD + OFF, "f.yaml", {}).tuner.limits().closed_loop


def test_deadline_is_read_with_its_time_zone() -> None:
    text = OBJECTIVE.replace("50}", "50, mode: deadline, finish_at: 2026-01-31T06:00:00+01:00}") + CAPACITY
    objective = parse_settings(text, "f.yaml", {}).tuner.objective
    assert objective is not None
    assert objective.for_control_law().finish_at_ms == 1_769_835_600_000


@pytest.mark.parametrize(
    "text", ["", "  objective:\n", "  objective: auto\n", "  objective: {latency_ms: auto}\n  capacity: auto\n"]
)
def test_objective_and_capacity_are_learned_unless_they_are_set(text: str) -> None:
    tuner = parse_settings(GOOD + text, "f.yaml", {}).tuner
    assert tuner.control_objective() == Objective(tolerance=0.5)
    assert tuner.capacity is None
    assert tuner.limits().closed_loop
    assert tuner.limits().throttles_all_moves is ("objective" in text), "moves without a throttle stay so by default"


@pytest.mark.parametrize(("text", "env"), [
    ("  objective: off\n", {}), ("  objective: 'no'\n", {}),
    *(("", {"RHEOSTAT_TUNER__OBJECTIVE": word}) for word in ("off", "OFF", "false", "no")),
])  # fmt: skip
def test_objective_off_leaves_the_rescue(text: str, env: dict[str, str]) -> None:
    tuner = parse_settings(GOOD + text, "f.yaml", env).tuner
    assert tuner.control_objective() is None
    assert not tuner.limits().closed_loop
    assert not tuner.limits().throttles_all_moves


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD + "  objective: off\n" + CAPACITY, "f.yaml:6: tuner: capacity has an effect only with an objective"),
        (GOOD + "  objective: {mode: share, share_max: 0.2}\n", "f.yaml:6: tuner: mode: share needs tuner.capacity"),
        (OBJECTIVE.replace("50}", "50, tolerance: 0.2}") + CAPACITY, "tolerance applies only with latency_ms: auto"),
        (OBJECTIVE.replace("50}", "quick}") + CAPACITY, "f.yaml:8: tuner.objective.latency_ms:"),
        (GOOD + "  objective: {tolerance: 0}\n", "tuner.objective.tolerance: input should be greater than or equal to 0.1"),
        (OBJECTIVE.replace("50}", "0}") + CAPACITY, "f.yaml:8: tuner.objective.latency_ms: input should be greater than 0"),
        (OBJECTIVE.replace("50}", "50, mode: quick}") + CAPACITY, "f.yaml:8: tuner.objective.mode: input should be 'fast', 'deadline', 'share' or 'gentle'"),
        (OBJECTIVE.replace("50}", "50, mode: deadline}") + CAPACITY, "mode: deadline needs finish_at"),
        (OBJECTIVE.replace("50}", "50, mode: share}") + CAPACITY, "mode: share needs share_max"),
        (OBJECTIVE.replace("50}", "50, share_max: 0.2}") + CAPACITY, "share_max applies only with mode: share, and the mode is fast"),
        (OBJECTIVE.replace("50}", "50, mode: share, share_max: 25}") + CAPACITY, "f.yaml:8: tuner.objective.share_max: input should be less than or equal to 1"),
        (OBJECTIVE + CAPACITY.replace("125_000_000", "-1"), "f.yaml:9: tuner.capacity.out_bytes_per_s: input should be greater than 0"),
    ],
)  # fmt: skip
def test_invalid_objective_is_named(text: str, said: str) -> None:
    assert said in fault(text)


def test_every_fault_is_reported_at_once() -> None:
    told = fault(
        "cluster: main\nkafka: {}\nstream: {checkpoint: x}\ntuner: {rate_bytes_per_s_max: fast}\n"
    ).splitlines()
    assert len(told) == 4


def test_environment_overrides_file_and_is_checked_like_it() -> None:
    settings = parse_settings(
        GOOD, "f.yaml", {"RHEOSTAT_TUNER__DRY_RUN": "true", "RHEOSTAT_TUNER__HTTP__PORT": "0", "HOME": "/x"}
    )
    assert settings.tuner.dry_run is True
    assert settings.tuner.http.port == 0
    assert "tuner.http.port" in fault(GOOD, {"RHEOSTAT_TUNER__HTTP__PORT": "99999"})
    assert "tuner.dryrun: unknown key" in fault(GOOD, {"RHEOSTAT_TUNER__DRYRUN": "true"})


def test_kubernetes_service_variables_are_ignored() -> None:
    """Kubernetes sets these variables for a service named rheostat."""
    others = {
        "RHEOSTAT_SERVICE_HOST": "10.0.0.1",
        "RHEOSTAT_PORT": "tcp://10.0.0.1:9464",
        "RHEOSTAT_PORT_9464_TCP": "x",
    }
    assert parse_settings(GOOD, "f.yaml", others) == parse_settings(GOOD, "f.yaml", {})


def test_fault_in_environment_names_the_variable() -> None:
    assert "environment: RHEOSTAT_TUNER__DRYRUN: tuner.dryrun: unknown key" in fault(
        GOOD, {"RHEOSTAT_TUNER__DRYRUN": "true"}
    )
    assert "RHEOSTAT_COLLECTOR__ENDPOINTS" in fault(GOOD, {"RHEOSTAT_COLLECTOR__ENDPOINTS": "{1: "})
    endpoints = parse_settings(GOOD, "f.yaml", {"RHEOSTAT_COLLECTOR__ENDPOINTS": '{"1": "http://a:1/metrics"}'})
    assert endpoints.collector.endpoints == {1: "http://a:1/metrics"}


@pytest.mark.parametrize("password", ["[s3cr3t!k", "{", "", "007"])
def test_password_may_be_any_text(password: str) -> None:
    settings = parse_settings(GOOD, "f.yaml", {"RHEOSTAT_KAFKA__SASL_PASSWORD": password})
    assert settings.kafka.sasl_password is not None
    assert settings.kafka.sasl_password.get_secret_value() == password


def test_password_is_never_shown() -> None:
    sasl = {
        "RHEOSTAT_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
        "RHEOSTAT_KAFKA__SASL_MECHANISM": "PLAIN",
        "RHEOSTAT_KAFKA__SASL_USERNAME": "me",
        "RHEOSTAT_KAFKA__SASL_PASSWORD": "hush",
    }
    settings = parse_settings(GOOD, "f.yaml", sasl)
    assert "hush" not in settings.model_dump_json()
    assert "hush" not in repr(settings)
    assert settings.kafka.kafka_python_arguments()["sasl_plain_password"] == "hush"
    assert 'password="hush"' in settings.kafka.for_java()["sasl.jaas.config"]
    assert "hush" not in fault(GOOD, {**sasl, "RHEOSTAT_KAFKA__SASL_MECHANISM": "MAGIC"})
    misplaced = {
        "RHEOSTAT_KAFKA__SASL_OAUTH_CLIENT_SECRET": "hush",
        "RHEOSTAT_KAFKA__SASL_OAUTH_CLIENT_SECRETS": "hush",
    }
    assert "hush" not in fault(GOOD, {**sasl, **misplaced})


def test_token_endpoint_is_refused_with_executors_on_other_machines() -> None:
    oauth = {
        "RHEOSTAT_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
        "RHEOSTAT_KAFKA__SASL_MECHANISM": "OAUTHBEARER",
        "RHEOSTAT_STREAM__MASTER": "spark://host:7077",
        "RHEOSTAT_STREAM__DRIVER_HOST": "10.0.0.1",
    }
    provider = {"RHEOSTAT_KAFKA__SASL_OAUTH_TOKEN_PROVIDER": "a:b"}
    assert "set kafka.sasl_oauth_token_file, a file that exists on all of these machines" in fault(
        GOOD, oauth | provider
    )
    assert parse_settings(GOOD, "f.yaml", oauth | {"RHEOSTAT_KAFKA__SASL_OAUTH_TOKEN_FILE": "/token"}).kafka.uses_sasl


def test_second_keytab_or_principal_is_refused() -> None:
    kerberos = {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI", "sasl_kerberos_principal": "rheostat@TEST"}
    own = {f"RHEOSTAT_KAFKA__{key.upper()}": value for key, value in kerberos.items()}
    own |= {"RHEOSTAT_KAFKA__SASL_KERBEROS_KEYTAB": "/etc/a.keytab"}

    def with_source(**login: str | None) -> dict[str, str]:
        source = {"topic": "t", "format": "telegraf_influx", "kafka": {"bootstrap_servers": "b:1", **login}}
        return own | {"RHEOSTAT_STREAM__SOURCES": json.dumps([source])}

    for other in ({**kerberos, "sasl_kerberos_keytab": "/etc/b.keytab"}, {**kerberos, "sasl_kerberos_principal": None}):
        said = fault(GOOD, with_source(**other))
        assert "stream.sources[0].kafka.sasl_kerberos_keytab differs from kafka.sasl_kerberos_keytab" in said
    other = {**kerberos, "sasl_kerberos_principal": "other@TEST", "sasl_kerberos_keytab": "/etc/a.keytab"}
    assert "stream.sources[0].kafka.sasl_kerberos_principal differs" in fault(GOOD, with_source(**other))
    same = parse_settings(GOOD, "f.yaml", with_source(**kerberos, sasl_kerberos_keytab="/etc/a.keytab"))
    assert same.stream.sources[0].kafka is not None
    assert parse_settings(GOOD, "f.yaml", with_source()).kafka.uses_kerberos


def test_password_with_quotes_is_escaped_in_jaas_config() -> None:
    sasl = {"RHEOSTAT_KAFKA__SECURITY_PROTOCOL": "SASL_PLAINTEXT", "RHEOSTAT_KAFKA__SASL_MECHANISM": "PLAIN"}
    sasl |= {"RHEOSTAT_KAFKA__SASL_USERNAME": "me", "RHEOSTAT_KAFKA__SASL_PASSWORD": 'a"b\\c'}
    line = parse_settings(GOOD, "f.yaml", sasl).kafka.for_java()["sasl.jaas.config"]
    assert line.endswith('password="a\\"b\\\\c";')


SOURCES = GOOD.replace(
    "  checkpoint_dir: /var/lib/rheostat\n",
    """\
  checkpoint_dir: /var/lib/rheostat
  sources:
    - topic: telegraf
      format: telegraf_json
      hosts: {kafka-1: 1}
    - topic: otlp
      format: otlp_json
      interval_s: 15
      kafka:
        bootstrap_servers: other:9092
""",
)


def test_sources_have_defaults() -> None:
    first, second = parse_settings(SOURCES, "f.yaml", {}).stream.sources
    assert (first.topic, first.hosts, first.interval_s, first.cluster, first.kafka) == (
        "telegraf",
        {"kafka-1": 1},
        10,
        None,
        None,
    )
    assert second.kafka is not None
    assert (second.interval_s, second.kafka.bootstrap_servers) == (15, "other:9092")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SOURCES.replace("otlp_json", "otlp"), "f.yaml:11: stream.sources[1].format: input should be 'rheostat_json', "),
        (SOURCES.replace("hosts:", "host:"), "f.yaml:9: stream.sources[0].host: unknown key: did you mean hosts?"),
        (SOURCES.replace("      format: otlp_json\n", ""), "f.yaml:10: stream.sources[1].format: is missing: format of the records"),
        (SOURCES.replace("- topic: otlp", "- topic: o/p"), "f.yaml:10: stream.sources[1].topic: string should match"),
        (SOURCES.replace("{kafka-1: 1}", "{kafka-1: one}"), "f.yaml:9: stream.sources[0].hosts.kafka-1: input should be a valid integer"),
        (SOURCES.replace("other:9092", "other"), "f.yaml:14: stream.sources[1].kafka.bootstrap_servers: expected host:port"),
        (SOURCES.replace("topic: otlp", "topic: rheostat.metrics").replace("other:9092", "other:9092\n    - {topic: rheostat.metrics, format: rheostat_json}"), "stream.sources[2].topic rheostat.metrics is rheostat's own"),
        (SOURCES.replace("topic: otlp", "topic: telegraf").replace("      kafka:\n        bootstrap_servers: other:9092\n", ""), "f.yaml:4: stream: sources[1].topic telegraf is listed twice"),
        (SOURCES.replace("interval_s: 15", "interval_s: 16"), "sources[1].interval_s (16) is more than half of window_s (30)"),
        (SOURCES.replace("interval_s: 15", "interval_s: 46").replace("stream:\n", "stream:\n  window_s: 120\n  backfill_after_s: 300\n"), "sources[1].interval_s (46) is more than 45"),
        (GOOD.replace("  checkpoint_dir: /var/lib/rheostat", "  checkpoint_dir: /c\n  window_s: 32"), "f.yaml:4: stream: window_s (32) is not a multiple of slide_s (5)"),
        (GOOD.replace("  checkpoint_dir: /var/lib/rheostat", "  checkpoint_dir: /c\n  backfill_after_s: 60"), "backfill_after_s (60) is below 2 × window_s + watermark_delay_s (70)"),
        (GOOD.replace("  checkpoint_dir: /var/lib/rheostat", "  checkpoint_dir: /c\n  master: mesos"), "f.yaml:6: stream.master: expected local, local[4], spark://host:port, yarn or k8s://"),
        (GOOD.replace("  checkpoint_dir: /var/lib/rheostat", "  checkpoint_dir: /c\n  master: yarn"), "master yarn needs driver_host"),
        (GOOD.replace("  checkpoint_dir: /var/lib/rheostat", "  checkpoint_dir: /c\n  master: local[4]\n  cores: 2"), "master local[4] and cores 2 give different numbers of threads: write master: local and cores: 4"),
        (GOOD.replace("  checkpoint_dir: /var/lib/rheostat", "  checkpoint_dir: /c\n  master: k8s://https://a:6443\n  driver_host: b"), "needs spark_conf spark.kubernetes.container.image"),
        (GOOD.replace("  checkpoint_dir: /var/lib/rheostat", "  checkpoint_dir: /c\n  spark_conf: {hadoop.a: b}"), "every setting of Spark begins with 'spark.'"),
        (GOOD.replace("  checkpoint_dir: /var/lib/rheostat", "  checkpoint_dir: /c\n  spark_conf: {spark.driver.memory: 2g}"), "spark_conf must not set spark.driver.memory: use stream.driver_memory_mb"),
        (GOOD.replace("  checkpoint_dir: /var/lib/rheostat", "  checkpoint_dir: /c\n  spark_conf: {spark.sql.shuffle.partitions: '8'}"), "spark_conf must not set spark.sql.shuffle.partitions: rheostat chooses it"),
        (GOOD.replace("  checkpoint_dir: /var/lib/rheostat", "  checkpoint_dir: /c\n  master: spark://a:7077"), "master spark://a:7077 needs driver_host"),
        (GOOD + "collector:\n  interval_s: 20\n", "collector.interval_s (20) is more than half of stream.window_s (30)"),
    ],
)  # fmt: skip
def test_fault_in_stream_settings_names_line_and_key(text: str, said: str) -> None:
    assert said in fault(text)


def test_cruise_control_interval_may_exceed_half_a_window() -> None:
    text = SOURCES.replace("otlp_json", "cruise_control").replace("interval_s: 15", "interval_s: 60")
    assert parse_settings(text, "f.yaml", {}).stream.sources[1].interval_s == 60


def test_local_spark_master_needs_no_driver_host() -> None:
    text = GOOD.replace("stream:\n", "stream:\n  master: spark://127.0.0.1:7077\n")
    assert not parse_settings(text, "f.yaml", {}).stream.is_local
    assert parse_settings(GOOD, "f.yaml", {}).stream.is_local
    given = {"RHEOSTAT_STREAM__MASTER": "spark://a:7077", "RHEOSTAT_STREAM__DRIVER_HOST": "10.0.0.7"}
    assert parse_settings(GOOD, "f.yaml", given).stream.driver_host == "10.0.0.7"


def test_number_in_local_master_is_the_number_of_threads() -> None:
    stream = parse_settings(GOOD.replace("stream:\n", "stream:\n  master: local[6]\n"), "f.yaml", {}).stream
    assert (stream.is_local, stream.threads) == (True, 6)
    assert parse_settings(GOOD, "f.yaml", {}).stream.threads == 2


def test_secrets_in_spark_conf_are_not_shown() -> None:
    conf = "  spark_conf: {spark.authenticate.secret: hush, spark.hadoop.fs.s3a.access.key: hush, spark.ui.enabled: 'true'}\n"
    stream = parse_settings(GOOD.replace("stream:\n", "stream:\n" + conf), "f.yaml", {}).stream
    assert stream.spark_conf["spark.authenticate.secret"] == "hush"
    assert "hush" not in stream.model_dump_json()
    assert '"spark.ui.enabled":"true"' in stream.model_dump_json()


def test_sources_from_environment_are_checked_like_the_file() -> None:
    given = {"RHEOSTAT_STREAM__SOURCES": '[{"topic": "t", "format": "telegraf_influx"}]'}
    assert parse_settings(SOURCES, "f.yaml", given).stream.sources[0].format == "telegraf_influx"
    secret = '[{"topic": "t", "format": "x", "kafka": {"bootstrap_servers": "a:1", "sasl_password": "hush"}}]'
    said = fault(GOOD, {"RHEOSTAT_STREAM__SOURCES": secret})
    assert said.startswith("environment: RHEOSTAT_STREAM__SOURCES: stream.sources[0].format: input should be")
    assert "hush" not in said
    assert "hush" not in fault(GOOD, {"RHEOSTAT_STREAM__SOURCES": f'{{"a": {secret}}}'})


def test_reference_lists_main_keys() -> None:
    text = reference()
    for key in ("cluster", "kafka.sasl_password", "collector.endpoints", "stream.checkpoint_dir", "tuner.http.port"):
        assert f"| `{key}` |" in text


def test_renamed_keys_are_refused_together_with_new_names() -> None:
    old = GOOD.replace("tuner:\n", "tuner:\n  yield_s: 60\n  standing_throttles: adopt\n", 1).replace(
        "stream:\n", "stream:\n  hop_s: 5\n", 1
    )
    with pytest.raises(BadInputError) as error:
        parse_settings(old, "f.yaml", {})
    text = str(error.value)
    for key, renamed in (
        ("tuner.yield_s", "external_change_hold_s"),
        ("tuner.standing_throttles", "existing_throttles"),
        ("stream.hop_s", "slide_s"),
    ):
        line = old.splitlines().index(next(row for row in old.splitlines() if key.split(".")[1] in row)) + 1
        assert f"f.yaml:{line}: {key}: unknown key: it is called {renamed} now" in text
