"""The setting ``stream.checkpoint_dir``: a local folder, or a folder of a Hadoop file system. This module does not import Spark."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):/")
# Matches a login but not a port. A secret key in the login may have a slash.
_LOGIN = re.compile(r"[^:]+://[^/@:]*:(?!\d+/).*@")
_URI = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s]+(/[^/\s]+)+")


@dataclass(frozen=True, slots=True)
class HadoopFolder:
    """A folder of a Hadoop file system, such as ``hdfs://namenode:8020/rheostat/checkpoint``."""

    uri: str

    def __str__(self) -> str:
        return self.uri

    @property
    def id(self) -> str:
        """An id of this folder, in the same form as the id of a local checkpoint."""
        return hashlib.sha256(self.uri.encode()).hexdigest()[:32]


CheckpointLocation = Path | HadoopFolder


def _parse(value: object) -> CheckpointLocation:
    if isinstance(value, Path | HadoopFolder):
        return value
    if not isinstance(value, str):
        raise ValueError(f"expected a path, or the address of a folder of a Hadoop file system, found {value!r}")
    scheme = _SCHEME.match(value)
    if scheme is None:
        return Path(value)
    if scheme["scheme"].lower() == "file":
        return Path("/" + value[scheme.end() :].lstrip("/"))
    if _LOGIN.match(value):
        # With ", found …" in this text, the caller does not add the value, which may contain a secret.
        raise ValueError(
            "expected an address without a login, which each log line about the checkpoint would contain, found one with a "
            "password or key: give it in stream.spark_conf or in environment variables"
        )
    uri = value.rstrip("/")
    if not _URI.fullmatch(uri):
        raise ValueError(
            f"expected a path, or an address such as hdfs://namenode:8020/rheostat/checkpoint or s3a://bucket/checkpoint, found "
            f"{value!r}: an address needs a host or a bucket, and a folder below it"
        )
    return HadoopFolder(uri)


CheckpointDir = Annotated[
    CheckpointLocation, PlainValidator(_parse), PlainSerializer(str, str), WithJsonSchema({"type": "string"})
]
