"""compose.yaml and what it mounts: valid, pinned, hardened, reachable from this machine only, and equal to the shipped files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose
from pydantic import SecretStr

from rheostat.config.resources import conf_file
from rheostat.config.settings import Settings, load_settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "compose"
TOKEN = "a" * 48


def resolved(value: Any) -> Any:
    """Returns a value with the default of each ``${NAME:-default}``."""
    match value:
        case str():
            return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)
        case dict():
            return {key: resolved(item) for key, item in value.items()}
        case list():
            return [resolved(item) for item in value]
    return value


COMPOSE: dict[str, Any] = resolved(yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8")))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
STAYING = sorted(SERVICES.keys() - {"prepare"})
KAFKA = ("controller", "kafka-1", "kafka-2", "kafka-3")
DEMO = {"prepare", *KAFKA, "rheostat-demo", "operator", "prometheus", "alertmanager", "grafana"}
MONITORING = {"prepare", "rheostat", "prometheus", "alertmanager", "grafana"}


def load(path: Path) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return body


def mounts(service: str) -> Iterator[tuple[str, str, bool]]:
    """Yields (source, target, read-only) of each mount of a service."""
    for mount in SERVICES[service]["volumes"]:
        if isinstance(mount, dict):
            assert mount["bind"] == {"create_host_path": False}
            yield mount["source"], mount["target"], mount["read_only"]
        else:
            source, target, *options = mount.split(":")
            yield source, target, options == ["ro"]


def container_file(service: str, target: str) -> Path:
    """Returns the file of the repository that the service sees at a path."""
    (source,) = (source for source, mounted_at, _ in mounts(service) if mounted_at == target)
    return ROOT / source


# -- the form ------------------------------------------------------------------------------------------------------------


def test_compose_file_follows_the_specification() -> None:
    assert set(PyCompose.from_yaml(yaml.safe_dump(COMPOSE)).service_names()) == set(SERVICES)


@pytest.mark.parametrize(
    "change", [{"read_onlyy": True}, {"pids_limit": "many"}, {"depends_on": {"prepare": {"condition": "service_done"}}}]
)
def test_wrong_key_or_value_is_refused(change: dict[str, Any]) -> None:
    services = {**SERVICES, "prometheus": {**SERVICES["prometheus"], **change}}
    with pytest.raises(ValueError, match=r"services\.prometheus"):
        PyCompose.from_yaml(yaml.safe_dump({**COMPOSE, "services": services}))


def test_each_service_is_in_the_profiles_that_need_it() -> None:
    assert {name for name, service in SERVICES.items() if "demo" in service["profiles"]} == DEMO
    assert {name for name, service in SERVICES.items() if "monitoring" in service["profiles"]} == MONITORING
    environ = dict(line.split("=") for line in (ROOT / ".env").read_text().splitlines() if not line.startswith("#"))
    assert environ == {"COMPOSE_PROFILES": "demo"}


# -- every service -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_mounted_file_exists_and_is_read_only(name: str) -> None:
    for source, target, is_read_only in mounts(name):
        if source.startswith("."):
            # Docker makes the folder of the secrets if there are none.
            assert (ROOT / source).exists() or source == "./secrets", source
            assert is_read_only, target
        else:
            assert source in COMPOSE["volumes"]


def test_every_volume_is_used_and_written_by_one_service() -> None:
    writers = [source for name in SERVICES for source, _, is_read_only in mounts(name) if not is_read_only]
    assert sorted(writers) == sorted(COMPOSE["volumes"])


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_is_unprivileged(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "user", "pid", "ipc", "devices"} & service.keys()
    assert service.get("network_mode", "none") == "none"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_image_has_a_version(name: str) -> None:
    image = SERVICES[name]["image"]
    assert re.fullmatch(r"rheostat:dev|(apache|prom|grafana)/\w+:v?\d+\.\d+\.\d+", image), image


@pytest.mark.parametrize("name", STAYING)
def test_every_staying_service_restarts_within_limits(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] == "unless-stopped"
    assert {"cpus", "memory"} <= service["deploy"]["resources"]["limits"].keys()
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    # The operator of the demo serves nothing.
    assert "healthcheck" in service or name == "operator"


def test_ports_are_published_on_this_machine_only() -> None:
    ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert ports == {
        "rheostat": ["127.0.0.1:9464:9464"],
        "rheostat-demo": ["127.0.0.1:9464:9464"],
        "prometheus": ["127.0.0.1:9090:9090"],
        "alertmanager": ["127.0.0.1:9093:9093"],
        "grafana": ["127.0.0.1:3000:3000"],
    }


def test_every_awaited_service_is_in_the_same_profiles() -> None:
    for service in SERVICES.values():
        for awaited, wait in service.get("depends_on", {}).items():
            assert set(service["profiles"]) <= set(SERVICES[awaited]["profiles"])
            expected = "service_completed_successfully" if awaited == "prepare" else "service_healthy"
            assert wait == {"condition": expected}


# -- what each service reads ---------------------------------------------------------------------------------------------


def settings_as_run(file: Path, **environ: str) -> Settings:
    """Returns the settings of a file with what run-rheostat.sh adds to the environment."""
    script = (FOLDER / "run-rheostat.sh").read_text().replace("$(cat /opt/prepared/read-token)", TOKEN)
    shown = subprocess.run(
        ["sh", "-c", script.replace("exec rheostat", "env #")], capture_output=True, text=True, timeout=20, check=True
    )
    added = dict(line.split("=", 1) for line in shown.stdout.splitlines() if line.startswith("RHEOSTAT_"))
    return load_settings(file, {**environ, **added})


@pytest.mark.parametrize("service", ["rheostat", "rheostat-demo"])
def test_settings_serve_prometheus_the_ports_that_it_scrapes(service: str) -> None:
    settings = settings_as_run(container_file(service, "/etc/rheostat/rheostat.yaml"))
    served = {
        "rheostat-tuner": settings.tuner.http,
        "rheostat-collector": settings.collector.http,
        "rheostat-stream": settings.stream.http,
        "rheostat-learn": settings.learn.http,
    }
    for job in load(FOLDER / "prometheus.yaml")["scrape_configs"]:
        http = served.pop(job["job_name"])
        assert (http.host, http.read_token) == ("0.0.0.0", SecretStr(TOKEN))
        assert job["static_configs"] == [{"targets": [f"rheostat:{http.port}"]}]
    assert served == {}
    assert settings.stream.checkpoint_dir.is_relative_to("/var/lib/rheostat")
    assert "127.0.0.1:9464" in SERVICES[service]["healthcheck"]["test"][-1]
    assert SERVICES[service]["networks"] == {"default": {"aliases": ["rheostat"]}}


def test_demo_settings_name_the_brokers_and_agents() -> None:
    settings = load_settings(container_file("rheostat-demo", "/etc/rheostat/rheostat.yaml"), {})
    brokers = [f"{name}:9092" for name in KAFKA[1:]]
    assert settings.kafka.bootstrap_servers == ",".join(brokers)
    operator = (FOLDER / "operator.sh").read_text()
    assert f"SERVERS={','.join(brokers)}\n" in operator
    for name in KAFKA:
        environ = SERVICES[name]["environment"]
        assert SERVICES[name]["hostname"] == name
        assert f"jmx-agent.jar={settings.collector.jmx_port}:" in environ["KAFKA_OPTS"]
        if name != "controller":
            assert environ["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{name}:9092"
            assert str(environ["KAFKA_NODE_ID"]) == name[-1]
    assert settings.collector.endpoints == {100: f"http://controller:{settings.collector.jmx_port}/metrics"}
    assert SERVICES["controller"]["environment"]["KAFKA_NODE_ID"] == 100
    assert settings.tuner.dry_run is False


def test_demo_throttle_is_between_writes_and_steady_state() -> None:
    operator = (FOLDER / "operator.sh").read_text()
    throttle, record, records = (
        int(re.search(rf"^{name}=(\d+)$", operator, re.M)[1])  # type: ignore[index]
        for name in ("THROTTLE_BYTES_PER_S", "RECORD_BYTES", "RECORDS_PER_S")
    )
    write = record * records
    assert write < throttle < 2 * write


def test_settings_of_a_real_cluster_start_as_a_dry_run() -> None:
    example = (FOLDER / "monitoring.env.example").read_text()
    environ = dict(line.split("=", 1) for line in example.splitlines() if line.startswith("RHEOSTAT_"))
    environ |= dict(re.findall(r"(?m)^# (RHEOSTAT_\w+)=(.+)$", example))
    file = container_file("rheostat", "/etc/rheostat/rheostat.yaml")
    assert file == conf_file("rheostat.yaml")
    settings = settings_as_run(file, **environ, RHEOSTAT_KAFKA__SASL_PASSWORD="secret")
    assert settings.tuner.dry_run is True
    assert settings.kafka.bootstrap_servers.startswith("kafka-1.example.com:")
    assert settings.collector.endpoints == {100: "http://controller-1.example.com:7071/metrics"}
    (env_file,) = SERVICES["rheostat"]["env_file"]
    assert env_file == {"path": "monitoring.env", "required": False}
    assert "/monitoring.env\n" in (ROOT / ".gitignore").read_text()


def test_prometheus_differs_from_the_shipped_file_only_in_addresses(
    promtool: Callable[..., None], tmp_path: Path
) -> None:
    assert container_file("prometheus", "/etc/prometheus/prometheus.yaml") == FOLDER / "prometheus.yaml"
    shipped = load(ROOT / "conf" / "prometheus" / "prometheus.yaml")
    shipped["rule_files"] = ["rules/*.yaml"]
    shipped["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = ["alertmanager:9093"]
    for job in shipped["scrape_configs"]:
        job["authorization"] = {"credentials_file": "/opt/prepared/read-token"}
        job["static_configs"][0]["targets"][0] = job["static_configs"][0]["targets"][0].replace("localhost", "rheostat")
    assert load(FOLDER / "prometheus.yaml") == shipped

    # As in the container: the rules beside the file, the token where prepare.sh has put it.
    token = tmp_path / "read-token"
    token.write_text(TOKEN)
    shutil.copytree(container_file("prometheus", "/etc/prometheus/rules"), tmp_path / "rules")
    text = (FOLDER / "prometheus.yaml").read_text().replace("/opt/prepared/read-token", str(token))
    (tmp_path / "prometheus.yaml").write_text(text)
    promtool("check", "config", tmp_path / "prometheus.yaml")


def test_alertmanager_accepts_the_mounted_file(amtool: Callable[..., None]) -> None:
    amtool("check-config", container_file("alertmanager", "/etc/alertmanager/alertmanager.yaml"))


def test_grafana_differs_from_the_shipped_files_only_in_the_address() -> None:
    source = "conf/grafana/provisioning/datasources/prometheus.yaml"
    shipped = load(ROOT / source)
    shipped["datasources"][0]["url"] = "http://prometheus:9090"
    assert load(container_file("grafana", "/etc/grafana/provisioning/datasources/prometheus.yaml")) == shipped
    boards = container_file("grafana", "/etc/grafana/provisioning/dashboards")
    (provider,) = load(boards / "rheostat.yaml")["providers"]
    board_folder = container_file("grafana", provider["options"]["path"])
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert Path(home).parent == Path(provider["options"]["path"])
    assert (board_folder / Path(home).name).exists()


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.sh")), ids=lambda path: path.name)
def test_shell_accepts_each_script(script: Path) -> None:
    shell = script.read_text().split("\n", 1)[0].rsplit("/", 1)[-1]
    subprocess.run([shell, "-n", script], timeout=20, check=True)


def test_prepare_keeps_the_token_and_renews_the_agent(tmp_path: Path) -> None:
    jmx = tmp_path / "cache" / "jvm" / "0123" / "jmx"
    jmx.mkdir(parents=True)
    agent = jmx / "jmx_prometheus_javaagent-1.0.1.jar"
    volume = tmp_path / "volume"
    volume.mkdir()
    script = (
        (FOLDER / "prepare.sh").read_text().replace("/var/lib/rheostat", str(volume)).replace("python -c", "python3 -c")
    )
    tokens = []
    for content in ("first", "second"):
        agent.write_text(content)
        environ = {"PATH": os.environ["PATH"], "RHEOSTAT_CACHE_DIR": str(tmp_path / "cache")}
        subprocess.run(["sh", "-c", script], env=environ, timeout=20, check=True)
        assert (volume / "jmx-agent.jar").read_text() == content
        tokens.append((volume / "read-token").read_text())
    assert tokens[0] == tokens[1]
    assert re.fullmatch(r"[0-9a-f]{48}\n", tokens[0])
    assert {file.name for file in volume.iterdir()} == {"jmx-agent.jar", "read-token"}
