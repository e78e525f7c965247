"""The command line that starts the stream by spark-submit."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from streaming.runner import spark_options
from streaming.session import submit_settings
from streaming.settings import StreamSettings


def submit_command(stream: StreamSettings, jars: Sequence[Path], config: Path, master: str | None) -> str:
    """Returns the command for a shell. The stream reads everything else from its settings when it runs.

    Args:
        jars: the files that the stream needs in its JVM.
        config: the settings file.
        master: the value of the option ``--master``, if it was given.
    """
    options = spark_options(stream, Path(tempfile.gettempdir()))
    settings = {**submit_settings(jars, options), "spark.pyspark.driver.python": sys.executable}
    confs = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    script = str(resources.files("rheostat.submit") / "rheostat_stream.py")
    stream_options = ["--config", str(config.absolute()), *(["--master", master] if master else [])]
    return shlex.join(
        ["spark-submit", "--master", options.master, "--deploy-mode", "client", *confs, script, *stream_options]
    )
