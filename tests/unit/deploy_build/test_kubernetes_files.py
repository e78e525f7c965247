"""deploy/kubernetes: kustomize builds it, it has the objects of the chart, and the Strimzi example grants exactly the needed rights."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from chart_kit import CHART, Object, workloads

from deploy_build.helm import Release, helm_is_here, load_yaml, render
from deploy_build.kustomize import VALUES
from rheostat.config.settings import parse_settings
from rheostat.permissions.table import ALL, COLLECT, CREATE, LEARN, PREFIX, STREAM, TUNE

FOLDER = Path(__file__).parents[3] / "deploy" / "kubernetes"
STRIMZI_KINDS = {"cluster": "Cluster", "topic": "Topic", "group": "Group", "transactionalId": "TransactionalId"}
OPERATOR_KINDS = {"ServiceMonitor", "PrometheusRule"}

Right = tuple[str, str, bool, str]  # Kind, name, whether it is a prefix, operation.

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")


def built(folder: str) -> list[Object]:
    done = subprocess.run(
        ["kubectl", "kustomize", str(FOLDER / folder)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [load_yaml(text) for text in re.split(r"^---$", done.stdout, flags=re.M)]


@needs_kubectl
@pytest.mark.parametrize("folder", ["base", "example"])
def test_kustomize_builds_valid_objects_that_fit(folder: str) -> None:
    objects = built(folder)
    made = {(one["kind"], one["metadata"]["name"]) for one in objects}
    assert len(made) == len(objects)
    for one in objects:
        if one["kind"] not in OPERATOR_KINDS:
            kubernetes_validate.validate(one, "1.37", strict=True)
        if folder == "example":
            assert one["metadata"]["namespace"] == "rheostat"
    for one, pod in workloads(objects):
        (container,) = pod["spec"]["containers"]
        (config,) = (volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if volume["name"] == "config")
        (text,) = (o["data"]["rheostat.yaml"] for o in objects if o["metadata"]["name"] == config)
        environ = {variable["name"]: variable.get("value", "a-secret-of-the-test-") for variable in container["env"]}
        del environ["RHEOSTAT_CONFIG"]
        assert parse_settings(
            text, one["metadata"]["name"], {**environ, **distinct_tokens(environ)}
        ).tuner.http.has_tokens
        assert ("ServiceAccount", pod["spec"]["serviceAccountName"]) in made
        if folder == "example":
            assert container["image"].startswith("registry.example.org/rheostat:")
            assert "RHEOSTAT_KAFKA__SASL_PASSWORD" in environ


def distinct_tokens(environ: dict[str, str]) -> dict[str, str]:
    """Returns a value of its own for each secret, as the settings refuse equal tokens."""
    return {name: f"{value}{number:08}" for number, (name, value) in enumerate(environ.items()) if "TOKEN" in name}


@needs_kubectl
@pytest.mark.skipif(not helm_is_here(), reason="Helm's engine has no wheel for this machine")
def test_kustomize_base_has_the_objects_of_the_chart() -> None:
    (rendering,) = render(CHART, [Release(values=VALUES, namespace="default")])

    def plain(one: Object) -> str:
        """Returns an object without what differs on purpose: the tool, and how a change of the settings replaces the pods."""
        text = yaml.safe_dump(one, sort_keys=True)
        text = re.sub(r"managed-by: \w+", "managed-by: x", text)
        text = re.sub(r"name: rheostat-config-\w+", "name: rheostat-config", text)
        return re.sub(r" *annotations:\n *rheostat/config-sha256: \w+\n", "", text)

    chart = [one for one in rendering.objects() if one["kind"] not in OPERATOR_KINDS | {"ConfigMap"}]
    base = [one for one in built("base") if one["kind"] != "ConfigMap"]
    assert sorted(map(plain, base)) == sorted(map(plain, chart))
    monitoring = [load_yaml(text) for text in (FOLDER / "monitoring" / "monitoring.yaml").read_text().split("\n---\n")]
    expected = [one for one in rendering.objects() if one["kind"] in OPERATOR_KINDS]
    assert sorted(map(plain, monitoring)) == sorted(map(plain, expected))


def test_kafka_user_of_strimzi_has_exactly_the_documented_rights() -> None:
    user = yaml.safe_load((FOLDER / "strimzi" / "kafka-user.yaml").read_text())
    values = yaml.safe_load((FOLDER / "strimzi" / "values.yaml").read_text())
    cluster = values["config"]["cluster"]
    assert not covered_rights(user, cluster) ^ documented_rights(cluster)
    assert "quotas" not in user["spec"]
    kafka = values["config"]["kafka"]
    assert kafka["sasl_username"] == values["secrets"]["kafkaPassword"]["name"] == user["metadata"]["name"]
    assert kafka["sasl_mechanism"].lower() == user["spec"]["authentication"]["type"]


def documented_rights(cluster: str) -> set[Right]:
    """Returns the rights of the four processes; those of the creation of topics are among them."""
    return without_implied(
        {
            (
                str(permission.kind),
                permission.name.replace(PREFIX, "rheostat").replace("<cluster>", cluster),
                permission.is_prefix,
                operation,
            )
            for role in (CREATE, COLLECT, STREAM, TUNE, LEARN)
            for permission in role.permissions
            for operation in permission.operations
        }
    )


def covered_rights(user: dict[str, Any], cluster: str) -> set[Right]:
    rights = set()
    for acl in user["spec"]["authorization"]["acls"]:
        resource = acl["resource"]
        for operation in acl["operations"]:
            is_prefix = resource.get("patternType") == "prefix"
            rights.add((STRIMZI_KINDS[resource["type"]], resource.get("name", ""), is_prefix, operation))
    return without_implied(rights)


def without_implied(rights: set[Right]) -> set[Right]:
    """Returns the rights without those of single topics that the rights on all topics contain."""
    on_all = {operation for kind, name, _, operation in rights if (kind, name) == ("Topic", ALL)}
    return {right for right in rights if not (right[0] == "Topic" and right[1] != ALL and right[3] in on_all)}


def test_strimzi_files_name_one_cluster_and_one_namespace() -> None:
    kafka = yaml.safe_load((FOLDER / "strimzi" / "kafka.yaml").read_text())
    user = yaml.safe_load((FOLDER / "strimzi" / "kafka-user.yaml").read_text())
    values = yaml.safe_load((FOLDER / "strimzi" / "values.yaml").read_text())
    assert user["metadata"]["labels"]["strimzi.io/cluster"] == kafka["metadata"]["name"]
    assert user["metadata"]["namespace"] == kafka["metadata"]["namespace"]
    (listener,) = kafka["spec"]["kafka"]["listeners"]
    server = values["config"]["kafka"]["bootstrap_servers"]
    assert (
        server == f"{kafka['metadata']['name']}-kafka-bootstrap.{kafka['metadata']['namespace']}.svc:{listener['port']}"
    )
    assert listener["tls"]
    assert listener["authentication"] == user["spec"]["authentication"]
    assert values["mounts"][0]["secret"] == f"{kafka['metadata']['name']}-cluster-ca-cert"
