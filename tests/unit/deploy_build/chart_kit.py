"""Releases of the chart with every combination of values that the documents name, and what their objects refer to."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from deploy_build.helm import Release

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "helm" / "rheostat"
GUIDE = ROOT / "docs" / "how-to" / "run-on-kubernetes.md"
KAFKA = {"config": {"kafka": {"bootstrap_servers": "kafka:9092"}}}
PARTS = ("collect", "stream", "learn", "tune")

Object = dict[str, Any]


def merged(*layers: dict[str, Any]) -> dict[str, Any]:
    """Returns the layers as Helm joins values files: a later one wins, section by section."""
    result: dict[str, Any] = {}
    for layer in copy.deepcopy(layers):
        for key, value in layer.items():
            old = result.get(key)
            result[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def guide_values() -> list[dict[str, Any]]:
    """Returns the values of each block of the guide."""
    return [
        yaml.safe_load(text)
        for text in re.findall(r'^```yaml \{helm="values"\}\n(.*?)^```', GUIDE.read_text(), re.M | re.S)
    ]


def releases() -> dict[str, Release]:
    """Returns the releases to test, by a name that says what is special."""
    first, spark, monitoring, https = guide_values()
    own_user = {"kafkaUser": "rheostat-x", "kafkaPassword": {"name": "x", "key": "password"}}
    values = {
        "defaults": {},
        "guide": first,
        "guide with monitoring": merged(first, monitoring),
        "guide with spark": merged(first, spark),
        "guide with https": merged(first, https),
        "guide with all": merged(first, spark, monitoring, https),
        "strimzi": yaml.safe_load((ROOT / "deploy" / "kubernetes" / "strimzi" / "values.yaml").read_text()),
        "own users": merged(first, dict.fromkeys(PARTS, own_user)),
        "more memory": {
            "config": {"stream": {"driver_memory_mb": "2GiB"}}, "stream": {"resources": {"limits": {"memory": "2800Mi"}}}
        },
        "another collector": {
            "collect": {"enabled": False},
            "config": {"stream": {"sources": [{"topic": "telegraf", "format": "telegraf_json", "interval_s": "10s"}]}},
        },
        "no forecasts": {"learn": {"enabled": False}},
        "storage class": {"stream": {"persistence": {"storageClass": "fast", "size": "5Gi"}}},
        "no persistence": {"stream": {"persistence": {"enabled": False}}},
        "egress": {"networkPolicy": {"egress": [{"ports": [{"port": 9092}]}, {"ports": [{"port": 53, "protocol": "UDP"}]}]}},
        "no policy": {"networkPolicy": {"enabled": False}, "podDisruptionBudget": {"enabled": False}},
        "standby everywhere": {"collect": {"replicas": 2}, "stream": {"replicas": 2}},
        "one tuner": {"tune": {"replicas": 1}, "config": {"tuner": {"dry_run": False}}},
        "digest": {"image": {"repository": "r.example/rheostat", "digest": "sha256:" + "a" * 64, "pullPolicy": "Always"},
                   "imagePullSecrets": [{"name": "registry"}]},
        "foreign account": {"serviceAccount": {"create": False, "name": "other"}},
        "named": {"fullnameOverride": "a" * 62 + "-b"},
        "other ports": {"config": {"tuner": {"http": {"port": 8080}}, "collector": {"http": {"port": 8081}}}},
        "several clusters": {
            "collect": {"replicas": 2},
            "config": {
                "clusters": {
                    "east": {"kafka": {"bootstrap_servers": "east:9092"}},
                    "Prod.west": {
                        "kafka": {"bootstrap_servers": "west:9092"},
                        "collector": {"jmx_port": 7072},
                        "tuner": {"rate_bytes_per_s_max": "200MB/s", "http": {"port": 9474, "page_url": "https://west.example/"}},
                    },
                }
            },
        },
        "placed": {
            part: {
                "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "kafka", "operator": "Exists"}], "podLabels": {"team": "kafka"},
                "podAnnotations": {"a/b": "c"}, "priorityClassName": "high", "extraEnv": [{"name": "TZ", "value": "UTC"}],
                "affinity": {"nodeAffinity": {}},
            }
            for part in PARTS
        },
        "numbers and words": {
            "config": {
                "tuner": {"rate_bytes_per_s_max": 200_000_000, "objective": False, "recovery": "off"},
                "limits": {"by_broker": {"3": 2000}}, "collector": {"endpoints": {"100": "http://c:7071/metrics"}, "interval_s": "5s"},
            }
        },
    }  # fmt: skip
    made = {name: Release(values=merged(KAFKA, one)) for name, one in values.items()}
    long_name = "the-longest-name-of-a-release-that-helm-takes-has-53c"
    assert len(long_name) == 53
    return {**made, "long release": Release(name=long_name, values=merged(KAFKA, monitoring)),
            "second release": Release(name="rheostat-east", values=merged(KAFKA, monitoring))}  # fmt: skip


def pod_of(one: Object) -> Object | None:
    """Returns the pod template of a workload; None for another object."""
    template: Object | None = (
        one.get("spec", {}).get("template") if one["kind"] in ("Deployment", "StatefulSet") else None
    )
    return template


def workloads(objects: list[Object]) -> list[tuple[Object, Object]]:
    """Returns each workload with its pod template."""
    return [(one, pod) for one in objects if (pod := pod_of(one)) is not None]


def texts_in(value: Any) -> Iterator[str]:
    """Yields all strings of an object, keys too."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner)
    elif isinstance(value, str):
        yield value
