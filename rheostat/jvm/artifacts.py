"""Downloads the pinned JVM artifacts of conf/jvm/ivy.xml once into the user's cache folder.

Invariant: the folder does not exist until it is complete, and its artifacts never change. Only JVMs add class archives
(class data sharing). The folder is filled under a temporary name, compared with the SHA-256 digests in the repository, and then
renamed. So no process sees an incomplete folder, even after a crash. Each process that loads the artifacts compares the digests
again. The folder's name is the digest of ivy.xml, so a changed version gets its own folder, and an older checkout keeps using the
older folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rheostat.config.resources import cache_dir, conf_file
from rheostat.errors import SetupError
from rheostat.jvm.digests import mismatch, read_digests
from rheostat.jvm.java import Java, find_java
from rheostat.run.process import spawn

RESOLVE_S_MAX = 900
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""

Progress = Callable[[str], None]  # Shows a line of progress.


def silent(line: str) -> None:
    """Ignores progress."""


@dataclass(frozen=True, slots=True)
class Artifacts:
    """The files of the artifacts in the cache folder ``home``."""

    spark_jars: tuple[Path, ...]
    kafka_jars: tuple[Path, ...]
    jmx_agent: Path
    compiler: Path
    home: Path

    def class_archive(self, java: Java, jars: Sequence[Path]) -> Path:
        """Returns the path of the class archive for Spark's JVM. It depends on the jars, on Java and on PySpark."""
        return self._class_archive("classes", java, metadata.version("pyspark"), jars)

    def kafka_class_archive(self, java: Java) -> Path:
        """Returns the path of the class archive for the nodes of a lab. It depends on the jars and on Java."""
        return self._class_archive("kafka-classes", java, self.jmx_agent.name, self.kafka_jars)

    def _class_archive(self, name: str, java: Java, version: str, jars: Sequence[Path]) -> Path:
        jar_names = " ".join(jar.name for jar in jars)
        inputs = f"{java.executable.resolve()} {java.version} {version} {jar_names}"
        return self.home / f"{name}-{hashlib.sha256(inputs.encode()).hexdigest()[:16]}.jsa"

    @property
    def kafka_class_path(self) -> str:
        return os.pathsep.join(str(jar) for jar in self.kafka_jars)


def resolve_artifacts(progress: Progress = silent) -> Artifacts:
    """Returns the artifacts; downloads them if they are missing. Several processes may call this at the same time.

    Args:
        progress: shows one short line for each download.

    Raises:
        SetupError: no suitable Java was found, or the registry does not answer.
    """
    ivy_xml = conf_file("jvm", "ivy.xml")
    jars = resolve_jars(ivy_xml, progress)
    return Artifacts(
        spark_jars=jars["spark"],
        kafka_jars=jars["kafka"],
        jmx_agent=jars["jmx"][0],
        compiler=jars["compiler"][0],
        home=_home(ivy_xml),
    )


def resolve_jars(ivy_xml: Path, progress: Progress = silent) -> Mapping[str, tuple[Path, ...]]:
    """Returns the jars of each configuration in an Ivy file. Jars that only tests need have an Ivy file of their own.

    Raises:
        SetupError: as ``resolve_artifacts``; or a file differs from its digest in the list beside the Ivy file.
    """
    home, digests = _home(ivy_xml), read_digests(ivy_xml)
    if not home.exists():
        with _download_lock(home, progress):
            if not home.exists():  # Another process may have downloaded it while this process waited for the lock.
                _download(ivy_xml, home, digests, progress)
    _check(home, digests)
    configurations = [conf.attrib["name"] for conf in ET.parse(ivy_xml).iter("conf")]
    return {
        configuration: tuple(home / name for name in sorted(digests) if name.startswith(f"{configuration}/"))
        for configuration in configurations
    }


def artifacts_present() -> bool:
    """Returns True if all artifacts are present and match their digests, False if they have to be downloaded.

    Raises:
        SetupError: a file is missing or differs from its digest.
    """
    ivy_xml = conf_file("jvm", "ivy.xml")
    home = _home(ivy_xml)
    if not home.exists():
        return False
    _check(home, read_digests(ivy_xml))
    return True


def fetch_jars(ivy_xml: Path, work: Path, progress: Progress) -> Path:
    """Downloads the files that the Ivy file names, and returns their folder below ``work``, with a folder per configuration.

    Raises:
        SetupError: no suitable Java was found, or the registry does not answer.
    """
    java = find_java()
    progress("fetching the JVM artifacts (once, about 60 MB) ...")
    settings = os.environ.get("RHEOSTAT_IVY_SETTINGS")
    if not settings:
        settings = str(work / "ivysettings.xml")
        Path(settings).write_text(_SETTINGS.format(cache=work / "ivy"))
    command = [
        str(java.executable),
        "-Djava.net.useSystemProxies=true",
        "-cp",
        str(_ivy_jar()),
        "org.apache.ivy.Main",
        "-settings",
        settings,
        "-ivy",
        str(ivy_xml),
        "-types",
        "jar",
        "bundle",
        "-retrieve",
        str(work / "jars" / "[conf]" / "[artifact]-[revision](-[classifier]).[ext]"),
    ]
    failure = _run_ivy(command, progress)
    if failure is not None or not any((work / "jars").rglob("*.jar")):
        raise SetupError(
            f"The JVM artifacts could not be fetched ({failure or 'Ivy fetched no file'}): check that this machine reaches "
            "Maven Central or a mirror named by an Ivy settings file in RHEOSTAT_IVY_SETTINGS, then try again."
        )
    return work / "jars"


def _home(ivy_xml: Path) -> Path:
    """Returns the cache folder of the artifacts that this Ivy file names."""
    return cache_dir() / "jvm" / hashlib.sha256(ivy_xml.read_bytes()).hexdigest()[:16]


def _check(home: Path, digests: Mapping[str, str]) -> None:
    if difference := mismatch(home, digests):
        raise SetupError(f"{difference}: remove {home} and try again; rheostat then downloads the files again.")


@contextmanager
def _download_lock(home: Path, progress: Progress) -> Iterator[None]:
    """Holds a lock, so that only one process downloads into ``home``."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / f"{home.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another process is fetching the JVM artifacts: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download(ivy_xml: Path, home: Path, digests: Mapping[str, str], progress: Progress) -> None:
    work = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        jars = fetch_jars(ivy_xml, work, progress)
        if difference := mismatch(jars, digests):
            raise SetupError(
                f"A fetched JVM artifact differs from the digest in this version of rheostat: {difference}. No fetched "
                "file was kept. Check the mirror that RHEOSTAT_IVY_SETTINGS names, or the proxy, then try again."
            )
        jars.rename(home)
        progress(f"{len(digests)} JVM artifacts in {home}")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_ivy(command: list[str], progress: Progress) -> str | None:
    """Runs Ivy. Returns the first line of its output that names an error; None if Ivy succeeded."""
    failure: str | None = None
    fetched = 0
    # ``spawn`` ends Ivy together with this process, so that no download continues unnoticed.
    process = spawn(command, log=subprocess.PIPE)
    watchdog = threading.Timer(RESOLVE_S_MAX, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        for raw in process.stdout:
            line = raw.decode(errors="replace")
            if match := re.search(r"downloading \S*/(\S+?\.jar)", line):
                fetched += 1
                progress(f"  {fetched:3d} {match.group(1)}")
            elif failure is None and re.search(r"unresolved dependency|FAILED|UnknownHost|Exception|timed out", line):
                failure = line.strip().strip(":").strip()[:200]
        code = process.wait()
    finally:
        watchdog.cancel()
        if process.poll() is None:
            process.kill()
            process.wait()
    if failure is None and code != 0:
        return f"Ivy ended with code {code}"
    return failure


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SetupError("PySpark is not installed in this environment: install rheostat with its dependencies.")
    ivy_jars = sorted((Path(spec.origin).parent / "jars").glob("ivy-2*.jar"))
    if not ivy_jars:
        raise SetupError("The Ivy jar is missing from PySpark's jars: reinstall pyspark.")
    return ivy_jars[-1]
