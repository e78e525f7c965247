"""Files of a checkpoint, on a local disk or on a Hadoop file system."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from streaming.checkpoint_location import CheckpointLocation
from streaming.hadoop_path import HadoopPath

CheckpointPath = Path | HadoopPath


def open_checkpoint(spark: SparkSession, location: CheckpointLocation) -> CheckpointPath:
    """Returns the path of a checkpoint, through which its files are read and written."""
    return location if isinstance(location, Path) else HadoopPath(spark, location.uri)


def write_atomically(file: CheckpointPath, text: str) -> None:
    """Replaces the file atomically and returns once it is on disk."""
    if isinstance(file, HadoopPath):
        file.write_atomically(text)
        return
    draft = file.with_name(f".{file.name}.rheostat.tmp")
    with draft.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    # Hadoop keeps a checksum file next to each local file that Spark writes, and does not check a file that has none.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    draft.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_tree(folder: CheckpointPath) -> None:
    """Removes a folder with its files; a local file that cannot be removed stays."""
    if isinstance(folder, HadoopPath):
        folder.remove_tree()
    else:
        shutil.rmtree(folder, ignore_errors=True)
