"""Several clusters in one settings file: each entry is completed by the shared sections, and each fault names its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rheostat.config.settings import Settings, choose_cluster, load_settings, parse_settings
from rheostat.errors import BadInputError

SHARED = """\
cluster: observability
kafka:
  bootstrap_servers: obs:9092
  security_protocol: SASL_SSL
  sasl_mechanism: PLAIN
  sasl_username: rheostat
  sasl_password: password-of-obs
stream:
  checkpoint_dir: /var/lib/rheostat
tuner:
  rate_bytes_per_s_max: 50MB/s
  rate_bytes_per_s_min: 2MB/s
"""
GOOD = (
    SHARED
    + """\
clusters:
  east:
    kafka: {bootstrap_servers: "east-1:9092,east-2:9092"}
    collector: {jmx_port: 7072}
  prod-west:
    kafka: {bootstrap_servers: "west:9092"}
    tuner:
      rate_bytes_per_s_max: 100MB/s
      http: {port: 9474}
"""
)


def parse(text: str, environ: dict[str, str] | None = None) -> Settings:
    return parse_settings(text, "f.yaml", environ or {})


def fault(text: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(BadInputError) as caught:
        parse(text, environ)
    return str(caught.value)


def test_entry_overrides_single_keys_of_the_shared_sections() -> None:
    east, west = parse(GOOD).for_each_cluster()
    assert (east.cluster, west.cluster) == ("east", "prod-west")
    assert (east.tuner.rate_bytes_per_s_max, west.tuner.rate_bytes_per_s_max) == (50e6, 100e6)
    assert east.tuner.rate_bytes_per_s_min == west.tuner.rate_bytes_per_s_min == 2e6
    assert (east.collector.jmx_port, west.collector.jmx_port) == (7072, None)
    assert west.tuner.http.port == 9474


def test_password_of_the_metrics_cluster_reaches_no_other() -> None:
    for settings in parse(GOOD).for_each_cluster():
        assert settings.kafka.security_protocol == "PLAINTEXT"
        assert settings.kafka.sasl_password is None
        assert settings.metrics_kafka.bootstrap_servers == "obs:9092"
        assert (settings.metrics_cluster, settings.has_own_metrics_cluster) == ("observability", True)


def test_file_of_one_cluster_has_its_measurements_in_the_same_cluster() -> None:
    settings = parse(SHARED)
    assert settings.for_each_cluster() == [settings]
    assert settings.metrics_kafka == settings.kafka
    assert (settings.metrics_cluster, settings.has_own_metrics_cluster) == ("observability", False)
    assert settings.other_pages == ()


def test_metrics_cluster_is_watched_by_an_entry_of_its_name() -> None:
    settings = parse(GOOD + "  observability: {tuner: {http: {port: 9484}}}\n").for_cluster("observability")
    assert settings.kafka == settings.metrics_kafka
    assert not settings.has_own_metrics_cluster


def test_each_cluster_knows_the_pages_of_the_others() -> None:
    text = GOOD.replace("jmx_port: 7072}", "jmx_port: 7072}\n    tuner: {http: {page_url: https://east.example/}}")
    east, west = parse(text).for_each_cluster()
    assert east.other_pages == (("prod-west", "http://127.0.0.1:9474"),)
    assert west.other_pages == (("east", "https://east.example/"),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            GOOD.replace("100MB/s", "fast"),
            "f.yaml:20: clusters.prod-west.tuner.rate_bytes_per_s_max: expected a rate such as 50MB/s, 1.5GiB/s, 10Gbit/s, or a "
            "plain number of bytes/s, found 'fast'",
        ),
        (
            GOOD.replace("jmx_port", "jmx_prot"),
            "f.yaml:16: clusters.east.collector.jmx_prot: unknown key: did you mean jmx_port?",
        ),
        (
            GOOD.replace("    collector:", "    stream:"),
            "f.yaml:16: clusters.east.stream: unknown key: known here: collector, ",
        ),
        (
            GOOD.replace('    kafka: {bootstrap_servers: "west:9092"}\n', ""),
            "f.yaml:17: clusters.prod-west.kafka: is missing: how to reach this cluster",
        ),
        (
            GOOD.replace('"west:9092"', "west"),
            "f.yaml:18: clusters.prod-west.kafka.bootstrap_servers: expected host:port, or several",
        ),
        (GOOD.replace("50MB/s", "fast"), "f.yaml:11: tuner.rate_bytes_per_s_max: expected a rate"),
        (GOOD.replace("  rate_bytes_per_s_max: 50MB/s\n", ""), "f.yaml:10: tuner.rate_bytes_per_s_max: is missing"),
        (GOOD.replace("prod-west:", "east:"), "f.yaml:17: clusters.east is repeated; it is already in line 14"),
        (
            GOOD.replace("prod-west:", "EAST:"),
            "f.yaml:17: clusters.EAST: the name differs from east only in capitals or in '.', '_' and '-': choose another",
        ),
        (
            GOOD.replace("prod-west:", "a|b:"),
            "f.yaml:17: clusters.a|b: a name of a cluster has letters, digits",
        ),
        (
            GOOD.replace("west:9092", "EAST-2:9092 ,x:1"),
            "f.yaml:18: clusters.prod-west.kafka.bootstrap_servers: east-2:9092 is also a server of east, and one Kafka",
        ),
        (
            GOOD.replace("west:9092", "obs:9092"),
            "f.yaml:18: clusters.prod-west.kafka.bootstrap_servers: obs:9092 is also a server of the metrics cluster "
            "observability,",
        ),
        (
            GOOD.replace("      http: {port: 9474}\n", ""),
            "f.yaml:19: clusters.prod-west.tuner.http.port: 9464 is also the port of the tuner of east: choose another",
        ),
        (
            GOOD.replace("jmx_port: 7072", "interval_s: 7"),
            "f.yaml:16: clusters.east.collector.interval_s: one process serves all clusters: set it in the shared section",
        ),
        (
            GOOD.replace("east:\n", "observability:\n"),
            "f.yaml:15: clusters.observability.kafka: observability is the metrics cluster, whose connection is the shared key",
        ),
        (GOOD + "  north: 5\n", "f.yaml:22: clusters.north: input should be a valid dictionary"),
        (SHARED + "clusters: [east]\n", "f.yaml:13: clusters: input should be a valid dictionary"),
        (
            GOOD.replace("stream:\n", "stream:\n  sources: [{topic: t, format: telegraf_json, cluster: x}]\n"),
            "f.yaml:9: stream.sources[0].cluster: is 'x': the settings have several clusters, so name the cluster of the records: east, ",
        ),
    ],
)
def test_fault_of_an_entry_names_its_line_once(text: str, expected: str) -> None:
    found = fault(text)
    if expected.startswith("f.yaml:19: clusters.prod-west.tuner.http.port"):
        expected = expected.replace(":18:", ":19:")
    assert expected in found
    assert len(found.splitlines()) == 1, found


def test_all_faults_of_all_entries_are_reported_together() -> None:
    found = fault(GOOD.replace("7072", "x").replace("100MB/s", "fast").replace("9474", "99999"))
    assert [line.split(": ")[1] for line in found.splitlines()] == [
        "clusters.east.collector.jmx_port",
        "clusters.prod-west.tuner.rate_bytes_per_s_max",
        "clusters.prod-west.tuner.http.port",
    ]


def test_secret_in_an_entry_is_not_printed() -> None:
    text = GOOD.replace('{bootstrap_servers: "west:9092"}', '{bootstrap_servers: "west:9092", sasl_password: [hush]}')
    assert "hush" not in fault(text)
    text = GOOD.replace(
        '{bootstrap_servers: "west:9092"}', '{bootstrap_servers: "west:9092", sasl_password: hush-hush}'
    )
    assert "hush" not in parse(text).model_dump_json()


def test_variable_sets_a_key_of_one_cluster() -> None:
    environ = {
        "RHEOSTAT_CLUSTERS__PROD_WEST__TUNER__DRY_RUN": "false",
        "RHEOSTAT_CLUSTERS__EAST__KAFKA__BOOTSTRAP_SERVERS": "e:1",
        "RHEOSTAT_CLUSTERS__EAST__COLLECTOR__ENDPOINTS": '{"7": "http://c:1/"}',
    }
    east, west = parse(GOOD, environ).for_each_cluster()
    assert (east.tuner.dry_run, west.tuner.dry_run) == (True, False)
    assert east.kafka.bootstrap_servers == "e:1"
    assert east.collector.endpoints == {7: "http://c:1/"}


def test_shared_variable_gives_way_to_a_key_of_the_entry() -> None:
    environ = {"RHEOSTAT_TUNER__RATE_BYTES_PER_S_MAX": "70MB/s"}
    east, west = parse(GOOD, environ).for_each_cluster()
    assert (east.tuner.rate_bytes_per_s_max, west.tuner.rate_bytes_per_s_max) == (70e6, 100e6)


def test_variable_of_an_unknown_cluster_is_refused() -> None:
    expected = "environment: RHEOSTAT_CLUSTERS__NORTH__TUNER__DRY_RUN: the file has no cluster of this name; its clusters are east, prod-west"
    assert fault(GOOD, {"RHEOSTAT_CLUSTERS__NORTH__TUNER__DRY_RUN": "true"}) == expected
    assert "it has no `clusters`" in fault(SHARED, {"RHEOSTAT_CLUSTERS__NORTH__TUNER__DRY_RUN": "true"})


def test_faulty_variable_of_a_cluster_is_named() -> None:
    found = fault(GOOD, {"RHEOSTAT_CLUSTERS__EAST__COLLECTOR__JMX_PORT": "x"})
    assert found.startswith(
        "environment: RHEOSTAT_CLUSTERS__EAST__COLLECTOR__JMX_PORT: clusters.east.collector.jmx_port: "
    )


def test_credential_sets_a_key_of_a_cluster_with_a_dot(tmp_path: Path) -> None:
    (tmp_path / "clusters.prod.west.kafka.sasl_username").write_text("w\n")
    (tmp_path / "notes.txt").write_text("no setting")
    text = GOOD.replace("prod-west:", "prod.west:")
    settings = parse(text, {"CREDENTIALS_DIRECTORY": str(tmp_path)}).for_cluster("prod.west")
    assert settings.kafka.sasl_username == "w"
    (tmp_path / "clusters.north.kafka.sasl_username").write_text("n\n")
    assert "credential clusters.north.kafka.sasl_username: the file has no cluster of this name" in fault(
        text, {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    )


def test_credential_of_a_cluster_whose_name_begins_with_another(tmp_path: Path) -> None:
    (tmp_path / "clusters.east.a.kafka.sasl_username").write_text("a\n")
    settings = parse(GOOD.replace("prod-west:", "east.a:"), {"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert settings.for_cluster("east.a").kafka.sasl_username == "a"
    assert settings.for_cluster("east").kafka.sasl_username is None


@pytest.mark.parametrize(
    ("name", "read_as"), [("no", "False"), ("1.10", "1.1"), ("007", "7"), ("2026-01-01", "datetime.date(2026, 1, 1)")]
)
def test_name_that_yaml_does_not_read_as_text_is_refused(name: str, read_as: str) -> None:
    found = fault(GOOD.replace("prod-west:", f"{name}:"))
    assert f"YAML reads this name as {read_as}, and not as text: write it in quotes" in found
    assert parse(GOOD.replace("prod-west:", f"'{name}':")).for_cluster(name).cluster == name


def test_cruise_control_of_two_clusters_is_refused() -> None:
    shared = GOOD.replace("tuner:\n", "tuner:\n  cruise_control: {url: http://cc:9090/kafkacruisecontrol}\n", 1)
    assert (
        "f.yaml:20: clusters.prod-west.tuner.cruise_control.url: it is also the Cruise Control of east, and a Cruise Control moves"
    ) in fault(shared)
    own = shared.replace(
        "      http: {port: 9474}", "      cruise_control: {url: http://cc-west:9090/}\n      http: {port: 9474}"
    )
    east, west = parse(own).for_each_cluster()
    assert east.tuner.cruise_control is not None
    assert west.tuner.cruise_control is not None
    assert west.tuner.cruise_control.url == "http://cc-west:9090/"


def test_agent_of_two_clusters_is_refused() -> None:
    shared = GOOD.replace("stream:\n", "collector: {endpoints: {1: 'http://b:7071/'}}\nstream:\n", 1)
    assert "clusters.prod-west.collector.endpoints.1: the agent of node 1 is also an agent of east" in fault(shared)


def test_choice_refuses_no_name_and_unknown_names() -> None:
    settings = parse(GOOD)
    assert choose_cluster(settings, "east", "f.yaml").cluster == "east"
    for name, expected in (
        (None, "f.yaml has several clusters: choose one of them with --cluster: east, prod-west"),
        ("north", "--cluster north: f.yaml has no cluster of this name; its clusters are east, prod-west"),
    ):
        with pytest.raises(BadInputError) as caught:
            choose_cluster(settings, name, "f.yaml")
        assert str(caught.value) == expected


def test_choice_of_one_cluster_needs_no_name_but_refuses_another() -> None:
    settings = parse(SHARED)
    assert choose_cluster(settings, None, "f.yaml") is settings
    assert choose_cluster(settings, "observability", "f.yaml") is settings
    with pytest.raises(BadInputError, match="its clusters are observability"):
        choose_cluster(settings, "east", "f.yaml")


def test_only_entry_is_chosen_without_a_name(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(SHARED + "clusters: {east: {kafka: {bootstrap_servers: 'e:1'}}}\n")
    assert load_settings(file, {}).cluster == "east"
    assert load_settings(file, {"RHEOSTAT_CHOSEN_CLUSTER": "east"}).has_own_metrics_cluster
