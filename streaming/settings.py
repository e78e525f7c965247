"""How the stream processor runs. ``rheostat/settings.py`` embeds this model; no Spark is imported here."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class StreamSettings(BaseModel):
    """How signals are made from metrics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    checkpoint_dir: Path = Field(
        description="folder on a local disk with the query's offsets and state; a query that finds it goes on where it ended"
    )
    start: Literal["latest", "earliest"] = Field(
        default="latest", description="where in the metrics topic a query without checkpoint begins"
    )
    cores: int = Field(default=2, ge=1, le=64, description="threads that Spark computes with")
    driver_memory_mb: int = Field(
        default=1024, ge=512, description="heap of the JVM, in MiB; counts only when the JVM is not running yet"
    )
    trigger_ms: int = Field(default=500, ge=0, description="shortest time from one batch to the next, in milliseconds")
    shuffle_partitions: int = Field(
        default=1, ge=1, le=64, description="parts of the state; fixed for the life of a checkpoint"
    )
    max_records_per_trigger: int = Field(
        default=5000,
        ge=1,
        description="most records of the metrics topic in one batch; bounds memory while catching up",
    )
