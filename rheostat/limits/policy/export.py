"""Makes the files of `rheostat limits policy export`: the jar, and the files that an operator adds to the controllers."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from rheostat.config.export import ExportedFile
from rheostat.jvm.artifacts import Artifacts, Progress, resolve_artifacts, silent
from rheostat.jvm.compiled_jar import JavaSources, compiled_jar
from rheostat.limits.policy.limits_file import render_limits_file
from tuner.core.partition_limits import PartitionCounts, PartitionLimits

LIST_FILE = ".rheostat-policy-export.json"  # Lists the exported files; see rheostat/config/export.py.
JAR = "rheostat-create-topic-policy.jar"
POLICY_CLASS = "rheostat.policy.PartitionLimitsPolicy"
CLASS_SETTING = "create.topic.policy.class.name"
FILE_SETTING = "rheostat.policy.limits.file"
LIMITS_FILE = "/run/rheostat-limits/limits.properties"
_JAVA_MAJOR_MIN = 11  # The oldest Java of the controllers of Kafka 3.9.
_CREDENTIALS = ("kafka.sasl_password", "kafka.sasl_oauth_client_secret")
# Beginnings of the names of the jars whose classes the policy imports.
IMPORTED_JARS = ("kafka-clients-", "slf4j-api-")


def policy_jar(artifacts: Artifacts, progress: Progress = silent) -> Path:
    """Returns the jar of the policy; compiles it if it is missing.

    Raises:
        SetupError: as ``compiled_jar``.
    """
    sources = JavaSources(
        name="create-topic-policy",
        title="the CreateTopicPolicy",
        folder=Path(__file__).parent,
        class_path=[jar for jar in artifacts.kafka_jars if jar.name.startswith(IMPORTED_JARS)],
        java_major=_JAVA_MAJOR_MIN,
    )
    return compiled_jar(sources, artifacts, progress)


def controller_settings(limits_file: str = LIMITS_FILE) -> dict[str, str]:
    """Returns the settings that a controller needs."""
    return {CLASS_SETTING: POLICY_CLASS, FILE_SETTING: limits_file}


def policy_files(progress: Progress = silent) -> list[ExportedFile]:
    """Returns all files of the export.

    Raises:
        SetupError: no suitable Java was found, the artifacts cannot be downloaded, or the sources cannot be compiled.
    """
    jar = policy_jar(resolve_artifacts(progress), progress).read_bytes()
    example = render_limits_file(
        PartitionCounts({1: 3100, 2: 1850, 3: 3020}),
        open_brokers=(1, 2, 3),
        limits=PartitionLimits(4000, 200_000, by_broker={2: 2000}),
        counted_at_ms=1_796_000_000_000,
        usable_for_s=300,
    )
    texts = {
        "controller.properties": _settings_text(),
        "limits.properties.example": example,
        "rheostat-limits-policy.service": _unit_text(),
    }
    return [
        ExportedFile(path=PurePosixPath(JAR), content=jar),
        *(ExportedFile(path=PurePosixPath(name), content=text.encode()) for name, text in texts.items()),
    ]


def _settings_text() -> str:
    return "\n".join(
        [
            "# Add these lines to the settings of each controller, after the jar is on the class path of all controllers (the",
            f"# folder libs/ of Kafka): without {JAR} a controller with these lines does not start.",
            "# Then restart the controllers one after another. With ZooKeeper add them to each broker.",
            *(f"{key}={value}" for key, value in controller_settings().items()),
            "",
        ]
    )


def _unit_text() -> str:
    return "\n".join(
        [
            "# Keeps the limits file on the machine of a controller. Copy it to /etc/systemd/system/.",
            "# If the settings have several clusters, add --cluster NAME to ExecStart.",
            "[Unit]",
            "Description=rheostat: limits file of the CreateTopicPolicy",
            "Wants=network-online.target",
            "After=network-online.target",
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            f"ExecStart=/opt/rheostat/bin/rheostat limits policy keep {LIMITS_FILE} --config /etc/rheostat/rheostat.yaml",
            "DynamicUser=yes",
            "EnvironmentFile=-/etc/rheostat/rheostat-limits-policy.env",
            "# Optional secrets, in files that only root can read: /etc/credstore/rheostat-limits-policy.KEY. See systemd-creds(1)",
            *(f"LoadCredential={key}:rheostat-limits-policy.{key}" for key in _CREDENTIALS),
            "# systemd removes this folder when the unit ends. Until the unit runs again, the policy allows each topic.",
            f"RuntimeDirectory={Path(LIMITS_FILE).parent.name}",
            "Restart=always",
            "RestartSec=5s",
            "# 2: the settings cannot be used. A restart does not help.",
            "RestartPreventExitStatus=2",
            "",
            "[Install]",
            "WantedBy=multi-user.target",
            "",
        ]
    )
