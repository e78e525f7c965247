"""The chart, rendered by Helm's engine with each combination of values that the documents name: its objects are valid and fit together."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from chart_kit import CHART, KAFKA, ROOT, Object, merged, releases, texts_in, workloads

from deploy_build.helm import Release, Rendering, helm_is_here, render
from deploy_build.systemd import CREDENTIALS
from rheostat.config.settings import parse_settings
from streaming.shared.process_metrics import installed_version

pytestmark = pytest.mark.skipif(not helm_is_here(), reason="Helm's engine has no wheel for this machine")

RELEASES = releases()
KUBERNETES = ("1.27", "1.37")  # The oldest that the chart accepts, and the newest that has schemas here.
OPERATOR_SCHEMAS = yaml.safe_load((Path(__file__).parent / "operator_schemas.yaml").read_text())
NAMES_CHARACTERS_MAX = 63
each_release = pytest.mark.parametrize("name", RELEASES)


@pytest.fixture(scope="module")
def renderings() -> dict[str, Rendering]:
    return dict(zip(RELEASES, render(CHART, list(RELEASES.values())), strict=True))


@pytest.fixture(scope="module")
def objects_by_release(renderings: dict[str, Rendering]) -> dict[str, list[Object]]:
    return {name: rendering.objects() for name, rendering in renderings.items()}


@pytest.fixture
def objects(renderings: dict[str, Rendering], objects_by_release: dict[str, list[Object]], name: str) -> list[Object]:
    assert renderings[name].error == ""
    return objects_by_release[name]


@pytest.fixture(scope="module")
def kubernetes() -> Iterator[Callable[[Object, str], str]]:
    """Checks an object against the schema of a version of Kubernetes. The library would read its schemas for each object again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kubernetes_validate.utils, "schema_contents", cache(kubernetes_validate.utils.schema_contents))
        yield partial(kubernetes_validate.validate, strict=True)


@each_release
def test_objects_fit_the_schemas_of_kubernetes(objects: list[Object], kubernetes: Callable[[Object, str], str]) -> None:
    for one in objects:
        if one["kind"] in OPERATOR_SCHEMAS:
            jsonschema.Draft202012Validator(OPERATOR_SCHEMAS[one["kind"]]).validate(one)
            continue
        for version in KUBERNETES:
            kubernetes(one, version)


@each_release
def test_names_are_short_and_unique(objects: list[Object]) -> None:
    names = [(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(set(names)) == len(names)
    for _, kind, name in names:
        # A StatefulSet adds a dash and a hash of ten characters in a label of its pods.
        assert len(name) <= NAMES_CHARACTERS_MAX - (11 if kind == "StatefulSet" else 0), name
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
    for one in objects:
        labels = one["metadata"]["labels"]
        assert all(len(value) <= NAMES_CHARACTERS_MAX for value in labels.values()), labels


@each_release
def test_selectors_match_the_pods_of_one_workload(objects: list[Object]) -> None:
    pods = {one["metadata"]["name"]: pod["metadata"]["labels"] for one, pod in workloads(objects)}

    def selected(labels: dict[str, str]) -> list[str]:
        return [name for name, own in pods.items() if labels.items() <= own.items()]

    for one, _ in workloads(objects):
        assert selected(one["spec"]["selector"]["matchLabels"]) == [one["metadata"]["name"]]
    services = {one["metadata"]["name"]: one for one in objects if one["kind"] == "Service"}
    assert services.keys() == pods.keys()
    for name, service in services.items():
        assert selected(service["spec"]["selector"]) == [name]
    for one in objects:
        if one["kind"] == "PodDisruptionBudget":
            (workload,) = selected(one["spec"]["selector"]["matchLabels"])
            assert workload == one["metadata"]["name"]
        if one["kind"] == "NetworkPolicy":
            assert selected(one["spec"]["podSelector"]["matchLabels"]) == list(pods)
        if one["kind"] == "ServiceMonitor":
            wanted = one["spec"]["selector"]["matchLabels"].items()
            (monitored,) = [
                name for name, service in services.items() if wanted <= service["metadata"]["labels"].items()
            ]
            assert monitored == one["metadata"]["name"]


@each_release
def test_ports_of_settings_pods_services_and_policy_agree(objects: list[Object]) -> None:
    (config,) = (one["data"]["rheostat.yaml"] for one in objects if "rheostat.yaml" in one.get("data", {}))
    sections = {"collect": "collector", "stream": "stream", "learn": "learn", "tune": "tuner"}
    ports = {}
    for one, pod in workloads(objects):
        (container,) = pod["spec"]["containers"]
        part = container["name"]
        (port,) = container["ports"]
        settings = yaml.safe_load(config)
        cluster = one["metadata"]["labels"].get("rheostat/cluster")
        own_http = settings["clusters"][cluster].get("tuner", {}).get("http", {}) if cluster is not None else {}
        assert port == {"name": "http", "containerPort": (settings[sections[part]]["http"] | own_http)["port"]}
        assert {container[f"{probe}Probe"]["httpGet"]["port"] for probe in ("startup", "liveness", "readiness")} == {
            "http"
        }
        ports[one["metadata"]["name"]] = port["containerPort"]
    for one in objects:
        if one["kind"] == "Service":
            assert one["spec"]["ports"] == [
                {"name": "http", "port": ports[one["metadata"]["name"]], "targetPort": "http"}
            ]
        if one["kind"] == "NetworkPolicy":
            assert {rule["port"] for rule in one["spec"]["ingress"][0]["ports"]} == set(ports.values())


def test_each_cluster_has_tuners_of_its_own(objects_by_release: dict[str, list[Object]]) -> None:
    made = objects_by_release["several clusters"]
    variables = {
        one["metadata"]["name"]: {v["name"]: v.get("value") for v in pod["spec"]["containers"][0]["env"]}.get(
            "RHEOSTAT_CHOSEN_CLUSTER"
        )
        for one, pod in workloads(made)
    }
    assert variables == {
        "rheostat-collect": None,
        "rheostat-learn": None,
        "rheostat-stream": None,
        "rheostat-tune-east": "east",
        "rheostat-tune-prod-west": "Prod.west",
    }
    budgets = {one["metadata"]["name"] for one in made if one["kind"] == "PodDisruptionBudget"}
    assert budgets == {"rheostat-collect", "rheostat-tune-east", "rheostat-tune-prod-west"}


def test_name_of_a_cluster_that_is_too_long_is_refused() -> None:
    values = merged(KAFKA, {"config": {"clusters": {"a" * 21: {"kafka": {"bootstrap_servers": "a:1"}}}}})
    (rendering,) = render(CHART, [Release(values=values)])
    assert "a name of a cluster has at most 20 characters on Kubernetes" in rendering.error


@each_release
def test_broken_pod_of_the_stream_does_not_block_its_update(objects: list[Object]) -> None:
    """With the policy OrderedReady, a StatefulSet waits for a pod that never becomes ready, even for one of an earlier revision."""
    for one in objects:
        if one["kind"] == "StatefulSet":
            assert one["spec"]["podManagementPolicy"] == "Parallel"


@each_release
def test_pods_keep_the_restricted_standard(objects: list[Object]) -> None:
    for _, pod in workloads(objects):
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False, "its variables look like settings"
        assert spec["securityContext"].items() >= {
            "runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001, "seccompProfile": {"type": "RuntimeDefault"},
        }.items()  # fmt: skip
        assert not spec.keys() & {"hostNetwork", "hostPID", "hostIPC", "initContainers"}
        assert all(volume.keys() & {"emptyDir", "configMap", "secret"} for volume in spec["volumes"])
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert "limits" in container["resources"]
        writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
        assert writable == {"/var/lib/rheostat", "/tmp"}


@each_release
def test_references_lead_to_objects_or_to_values(objects: list[Object], name: str) -> None:
    made = {(one["kind"], one["metadata"]["name"]) for one in objects}
    values = set(texts_in(merged(yaml.safe_load((CHART / "values.yaml").read_text()), RELEASES[name].values)))
    for workload, pod in workloads(objects):
        spec = pod["spec"]
        (container,) = spec["containers"]
        claims = [claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])]
        volumes = [volume["name"] for volume in spec["volumes"]] + claims
        assert sorted(mount["name"] for mount in container["volumeMounts"]) == sorted(volumes)
        for volume in spec["volumes"]:
            if "configMap" in volume:
                found = volume["configMap"]["name"]
                assert ("ConfigMap", found) in made or found in values
            if "secret" in volume:
                assert volume["secret"]["secretName"] in values
        for variable in container["env"]:
            if "valueFrom" in variable:
                assert set(variable["valueFrom"]["secretKeyRef"].values()) <= values
        account = spec["serviceAccountName"]
        assert ("ServiceAccount", account) in made or account in values
        if workload["kind"] == "StatefulSet":
            assert ("Service", workload["spec"]["serviceName"]) in made


@each_release
def test_settings_in_the_configmap_pass_the_check(objects: list[Object], tmp_path: Path) -> None:
    for one, pod in workloads(objects):
        (container,) = pod["spec"]["containers"]
        (volume,) = (volume for volume in pod["spec"]["volumes"] if volume["name"] == "config")
        (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "config")
        (config,) = (
            o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"] == volume["configMap"]["name"]
        )
        assert container["args"][-1] == f"{mount['mountPath']}/{next(iter(config['data']))}"
        environ = {
            variable["name"]: variable.get("value", f"{variable['name']}-is-a-secret") for variable in container["env"]
        }
        settings = parse_settings(config["data"]["rheostat.yaml"], one["metadata"]["name"], environ)
        assert str(settings.stream.checkpoint_dir).startswith("/var/lib/rheostat/")
        assert settings.tuner.http.has_tokens


def test_chart_refuses_each_secret_in_the_settings() -> None:
    keys = [key.split(".") for key in CREDENTIALS]
    assert keys
    values = [reduce(lambda inner, name: {name: inner}, reversed(["config", *key]), "geheim") for key in keys]
    renderings = render(CHART, [Release(values=merged(KAFKA, one)) for one in values])
    for key, rendering in zip(keys, renderings, strict=True):
        assert f"additional properties '{key[-1]}' not allowed" in rendering.error
        assert rendering.files == {}


def test_two_releases_in_one_namespace_share_no_object(objects_by_release: dict[str, list[Object]]) -> None:
    first, second = (
        {(one["kind"], one["metadata"]["name"]) for one in objects_by_release[name]}
        for name in ("guide with monitoring", "second release")
    )
    assert not first & second
    pods = [
        {tuple(sorted(pod["metadata"]["labels"].items())) for _, pod in workloads(objects_by_release[name])}
        for name in ("guide with monitoring", "second release")
    ]
    assert not pods[0] & pods[1]


def test_standby_tuner_counts_as_ready_and_updates_roll(objects_by_release: dict[str, list[Object]]) -> None:
    tune = next(
        one
        for one in objects_by_release["defaults"]
        if one["metadata"]["name"] == "rheostat-tune" and "template" in one["spec"]
    )
    (container,) = tune["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz?standby=true"
    assert tune["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert tune["spec"]["replicas"] == 2


def test_only_parts_without_a_lease_never_overlap(objects_by_release: dict[str, list[Object]]) -> None:
    strategies = {
        one["metadata"]["name"]: (one["kind"], one["spec"].get("strategy", {}).get("type"), one["spec"]["replicas"])
        for one, _ in workloads(objects_by_release["defaults"])
    }
    assert strategies == {
        "rheostat-collect": ("Deployment", "RollingUpdate", 1),
        "rheostat-stream": ("StatefulSet", None, 1),
        "rheostat-learn": ("Deployment", "Recreate", 1),
        "rheostat-tune": ("Deployment", "RollingUpdate", 2),
    }


def test_each_part_with_a_standby_has_a_budget(objects_by_release: dict[str, list[Object]]) -> None:
    def budgets(name: str) -> list[str]:
        return [one["metadata"]["name"] for one in objects_by_release[name] if one["kind"] == "PodDisruptionBudget"]

    assert budgets("defaults") == ["rheostat-tune"]
    assert budgets("standby everywhere") == ["rheostat-collect", "rheostat-stream", "rheostat-tune"]
    assert budgets("one tuner") == []


def test_probes_use_https_for_a_tuner_with_a_certificate(objects_by_release: dict[str, list[Object]]) -> None:
    for one, pod in workloads(objects_by_release["guide with https"]):
        (container,) = pod["spec"]["containers"]
        expected = "HTTPS" if one["metadata"]["name"].endswith("-tune") else "HTTP"
        assert container["livenessProbe"]["httpGet"]["scheme"] == expected
    monitors = [one for one in objects_by_release["guide with https"] if one["kind"] == "ServiceMonitor"]
    assert [("tlsConfig" in one["spec"]["endpoints"][0]) for one in monitors] == [False, False, False, True]


def test_rules_and_dashboards_are_those_of_the_project(objects_by_release: dict[str, list[Object]]) -> None:
    objects = objects_by_release["guide with monitoring"]
    groups = [group for one in objects if one["kind"] == "PrometheusRule" for group in one["spec"]["groups"]]
    built = [
        yaml.safe_load(path.read_text())["groups"] for path in sorted((ROOT / "dashboards" / "rules").glob("*.yaml"))
    ]
    assert groups == [group for one in built for group in one]
    boards = {
        file: text
        for one in objects
        if one["metadata"]["labels"].get("grafana_dashboard") == "1"
        for file, text in one["data"].items()
    }
    assert boards == {path.name: path.read_text() for path in (ROOT / "dashboards").glob("*.json")}


def test_chart_and_image_have_the_version_of_the_project(objects_by_release: dict[str, list[Object]]) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (installed_version(), installed_version())
    images = {pod["spec"]["containers"][0]["image"] for _, pod in workloads(objects_by_release["defaults"])}
    assert images == {f"rheostat:{installed_version()}"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "at '/config/kafka/bootstrap_servers': minLength"),
        (merged(KAFKA, {"tune": {"replicas": "two"}}), "at '/tune/replicas': got string, want integer"),
        (merged(KAFKA, {"tune": {"replica": 2}}), "at '/tune': additional properties 'replica' not allowed"),
        (merged(KAFKA, {"stream": {"persistence": {"enabled": "yes"}}}), "at '/stream/persistence/enabled': got string, want boolean"),
        (merged(KAFKA, {"mounts": [{"name": "x", "path": "relative", "secret": "s"}]}), "at '/mounts/0/path'"),
        (merged(KAFKA, {"mounts": [{"name": "x", "path": "/x"}]}), "at '/mounts/0'"),
        (merged(KAFKA, {"secrets": {"readToken": {"name": ""}}}), "at '/secrets/readToken/name': minLength"),
        (merged(KAFKA, {"config": {"kafka": {"sasl_password": "geheim"}}}), "at '/config/kafka': additional properties 'sasl_password'"),
        (merged(KAFKA, {"config": {"tuner": {"http": {"operate_token": "geheim"}}}}), "additional properties 'operate_token'"),
        (merged(KAFKA, {"config": {"stream": {"master": "spark://s:7077"}}}), "config.stream.master: the chart runs Spark inside the stream's pod only"),
        (merged(KAFKA, {"config": {"stream": {"spark_conf": {"spark.authenticate.Secret": "geheim"}}}}), "invalid propertyName 'spark.authenticate.Secret'"),
        (merged(KAFKA, {"config": {"tuner": {"dry_run": "maybe"}}}), "at '/config/tuner/dry_run': got string, want boolean"),
        (merged(KAFKA, {"config": {"tuner": {"cycle_s": [1]}}}), "at '/config/tuner/cycle_s'"),
        (merged(KAFKA, {"config": {"tuner": {"cylce_s": 1}}}), "at '/config/tuner': additional properties 'cylce_s'"),
        (merged(KAFKA, {"config": {"collector": {"http": {"port": None}}}}), "at '/config/collector/http'"),
    ],
)  # fmt: skip
def test_wrong_value_is_refused_with_its_key(values: dict[str, Any], message: str) -> None:
    (rendering,) = render(CHART, [Release(values=values)])
    assert message in rendering.error
    assert "geheim" not in rendering.error
    assert rendering.files == {}


def test_schema_takes_every_setting_of_the_documents() -> None:
    """Blocks of settings in the documents are valid `config`, except for secrets, which the chart refuses."""
    from markdown_it import MarkdownIt

    from rheostat.config.settings import Settings

    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    sections = schema["properties"]["config"]["allOf"][0]["properties"]
    count = 0
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for token in MarkdownIt("commonmark").parse(page.read_text()):
            if token.type != "fence" or token.info != "yaml":
                continue
            block = yaml.safe_load(token.content)
            if not isinstance(block, dict) or not set(block) <= set(Settings.model_fields):
                continue
            count += 1
            for section, value in block.items():
                partial = _without_required({**sections[section], "definitions": schema["definitions"]})
                errors = list(jsonschema.Draft7Validator(partial).iter_errors(_with_text_keys(value)))
                assert not errors, f"{page.name}: {section}: {errors[0].message}"
    assert count > 20


def _without_required(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _without_required(value) for key, value in schema.items() if key != "required"}
    return [_without_required(one) for one in schema] if isinstance(schema, list) else schema


def _with_text_keys(value: Any) -> Any:
    """Returns the value as Helm sees it: JSON has only texts as keys."""
    if isinstance(value, dict):
        return {str(key): _with_text_keys(inner) for key, inner in value.items()}
    return [_with_text_keys(inner) for inner in value] if isinstance(value, list) else value


def test_generated_files_are_current_and_a_change_is_found(tmp_path: Path) -> None:
    from deploy_build.__main__ import bring_up_to_date
    from deploy_build.chart import chart_files

    wanted = chart_files()
    assert bring_up_to_date(wanted, ROOT, is_check=True) == []
    assert len(bring_up_to_date(wanted, tmp_path, is_check=False)) == len(wanted)
    rules = next(path for path in wanted if path.parent.name == "rules")
    (tmp_path / rules).write_text("groups: []\n")
    assert bring_up_to_date(wanted, tmp_path, is_check=True) == [tmp_path / rules]
    assert (tmp_path / rules).read_text() == "groups: []\n", "a check writes nothing"


def test_lint_finds_nothing() -> None:
    code = (
        "import helm_python, json, sys\n"
        f"report = helm_python.lint({str(CHART)!r}, {KAFKA!r}, strict=True)\n"
        "print(json.dumps([m for m in report['messages'] if m['severity'] > 1]), report['errors'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[] []"
