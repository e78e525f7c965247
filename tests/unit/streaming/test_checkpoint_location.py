from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rheostat.config.settings import parse_settings
from rheostat.doctor.findings import FindingVerdict
from rheostat.doctor.machine import storage_of_stream
from rheostat.errors import BadInputError
from streaming import storage
from streaming.checkpoint_location import HadoopFolder
from streaming.checkpoint_lock import locked
from streaming.failure_causes import explain_death
from streaming.settings import StreamSettings
from streaming.shared.contract import Topics
from streaming.shared.kafka import KafkaSettings

ADDRESS = "hdfs://namenode:8020/rheostat/checkpoint"
REMOTE = StreamSettings(checkpoint_dir=HadoopFolder(ADDRESS))


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("/var/lib/checkpoint", Path("/var/lib/checkpoint")),
        ("relative/folder", Path("relative/folder")),
        ("file:///var/lib/checkpoint", Path("/var/lib/checkpoint")),
        ("file:/var/lib/checkpoint", Path("/var/lib/checkpoint")),
        (ADDRESS, HadoopFolder(ADDRESS)),
        (f"{ADDRESS}/", HadoopFolder(ADDRESS)),
        ("s3a://bucket/checkpoint", HadoopFolder("s3a://bucket/checkpoint")),
        ("abfss://box@store.example/a:b@c", HadoopFolder("abfss://box@store.example/a:b@c")),
        (f"{ADDRESS}@2", HadoopFolder(f"{ADDRESS}@2")),
    ],
)
def test_checkpoint_dir_takes_paths_and_addresses(text: str, location: object) -> None:
    settings = StreamSettings.model_validate({"checkpoint_dir": text})
    assert settings.checkpoint_dir == location
    assert settings.model_dump(mode="json")["checkpoint_dir"] == str(location)


@pytest.mark.parametrize(
    "text", ["hdfs:///checkpoint", "s3a://bucket", "s3a://bucket/", "hdfs:/checkpoint", "s3a://b/a b"]
)
def test_checkpoint_dir_refuses_address_without_host_or_folder(text: str) -> None:
    with pytest.raises(ValueError, match="an address needs a host or a bucket, and a folder below it"):
        StreamSettings.model_validate({"checkpoint_dir": text})


@pytest.mark.parametrize("secret", ["hush", "hush/hush+hush", "4hush"])
def test_checkpoint_dir_refuses_login_and_does_not_show_it(secret: str) -> None:
    text = f"cluster: c\nkafka: {{bootstrap_servers: 'a:1'}}\nstream: {{checkpoint_dir: 's3a://key:{secret}@bucket/c'}}\ntuner: {{rate_bytes_per_s_max: 50MB/s}}\n"
    with pytest.raises(BadInputError) as error:
        parse_settings(text, "f.yaml", {})
    assert str(error.value).startswith("f.yaml:3: stream.checkpoint_dir: expected an address without a login")
    assert "hush" not in str(error.value)


def test_checkpoint_dir_refuses_number() -> None:
    with pytest.raises(
        ValueError, match="expected a path, or the address of a folder of a Hadoop file system, found 5"
    ):
        StreamSettings.model_validate({"checkpoint_dir": 5})


def test_id_of_remote_checkpoint_depends_on_address_only() -> None:
    with locked(HadoopFolder(ADDRESS)) as id_, locked(HadoopFolder(ADDRESS)) as again:
        assert id_ == again
        assert len(id_) == 32
    with locked(HadoopFolder(f"{ADDRESS}2")) as other:
        assert other != id_


def test_folders_of_remote_checkpoint_are_scratch_alone() -> None:
    assert [folder.setting for folder in storage.folders(REMOTE)] == ["the environment variable TMPDIR"]


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (PermissionError(errno.EACCES, "Permission denied: user=guest", ADDRESS), "Give the user or the access key"),
        (OSError(errno.EIO, "ConnectException: refused", ADDRESS), "Check the address, that the file system answers"),
    ],
)
def test_storage_error_of_remote_file_names_checkpoint_and_remedy(error: OSError, remedy: str) -> None:
    text = str(storage.storage_error(error, REMOTE))
    assert text.startswith(f"The checkpoint {ADDRESS} cannot be used. {remedy}")
    assert text.endswith(f"Hadoop says: {error.strerror}")


@pytest.mark.parametrize(
    ("report", "remedy"),
    [
        ("Permission denied: user=guest, access=WRITE, inode=\"/\"", "Give the user or the access key"),
        ("java.nio.file.AccessDeniedException: s3a://b/c: 403", "Give the user or the access key"),
        (
            "Call From a/10.0.0.1 to namenode:8020 failed on connection exception: java.net.SocketTimeoutException; For more "
            "details see: http://wiki.apache.org/hadoop/SocketTimeout",
            "Check the address",
        ),
        ("Name node is in safe mode. org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Check the address"),
    ],
)  # fmt: skip
def test_death_by_remote_file_system_names_it(report: str, remedy: str) -> None:
    kafka = KafkaSettings(bootstrap_servers="kafka-1:9092")
    text = explain_death(report, kafka, Topics.with_prefix("rheostat"), REMOTE)
    assert text.startswith(f"The stream processor died. The checkpoint {ADDRESS} cannot be used. {remedy}")
    assert "kafka-1" not in text


def test_doctor_leaves_remote_checkpoint_to_the_stream() -> None:
    text = f"cluster: c\nkafka: {{bootstrap_servers: 'a:1'}}\nstream: {{checkpoint_dir: '{ADDRESS}'}}\ntuner: {{rate_bytes_per_s_max: 50MB/s}}\n"
    findings = {finding.check: finding for finding in storage_of_stream(parse_settings(text, "f.yaml", {}))}
    assert findings["checkpoint folder"].verdict is FindingVerdict.OK
    assert "is checked by the stream at its start" in findings["checkpoint folder"].found
