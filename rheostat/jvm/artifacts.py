"""The pinned JVM artifacts of conf/jvm/ivy.xml, resolved once into the user's cache folder.

Invariant: a folder that carries the ``complete`` file holds every artifact whole, and is never written again. It is
filled under another name and renamed, so neither a crash nor a second process can show half of it. Its name is the
digest of ivy.xml: a changed pin is another folder, and an old one keeps working for an old checkout.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
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
from typing import Any

from rheostat.errors import SetupError
from rheostat.jvm.java import Java, find_java
from rheostat.process import spawn
from rheostat.resources import cache_dir, conf_file

RESOLVE_S_MAX = 900
_COMPLETE = "complete.json"
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""

Progress = Callable[[str], None]


def silent(line: str) -> None:
    """Progress for whoever does not show any."""


@dataclass(frozen=True, slots=True)
class Artifacts:
    spark_jars: tuple[Path, ...]
    kafka_jars: tuple[Path, ...]
    jmx_agent: Path
    compiler: Path
    home: Path

    def class_archive(self, java: Java, jars: Sequence[Path]) -> Path:
        """Where Spark's JVM may keep its classes: one file for these jars, this Java and this PySpark."""
        named = " ".join(jar.name for jar in jars)
        made_of = f"{java.executable.resolve()} {java.version} {metadata.version('pyspark')} {named}"
        return self.home / f"classes-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.jsa"

    @property
    def kafka_class_path(self) -> str:
        return os.pathsep.join(str(jar) for jar in self.kafka_jars)


def resolve_artifacts(progress: Progress = silent) -> Artifacts:
    """The artifacts, downloaded when they are not there yet. Safe from several processes at once.

    Args:
        progress: hears one short line a download; nothing when all is there.

    Raises:
        SetupError: no fitting Java, or the registry does not answer.
    """
    ivy_xml = conf_file("jvm", "ivy.xml")
    jars = resolve_jars(ivy_xml, progress)
    return Artifacts(jars["spark"], jars["kafka"], jars["jmx"][0], jars["compiler"][0], _home(ivy_xml))


def resolve_jars(ivy_xml: Path, progress: Progress = silent) -> Mapping[str, tuple[Path, ...]]:
    """Configuration → its jars, of any Ivy file: what only tests need has one of its own, and stays out of the image.

    Raises:
        SetupError: as ``resolve_artifacts``.
    """
    home = _home(ivy_xml)
    jars = _read(home, ivy_xml)
    if jars is None:
        with _only_one(home, progress):
            jars = _read(home, ivy_xml)  # Another process may have finished it while we waited.
            if jars is None:
                _download(ivy_xml, home, progress)
                jars = _read(home, ivy_xml)
    if jars is None:
        raise SetupError(f"The JVM artifacts in {home} are not whole: remove that folder and try again.")
    return jars


def artifacts_present() -> bool:
    """True when nothing needs to be downloaded."""
    ivy_xml = conf_file("jvm", "ivy.xml")
    return _read(_home(ivy_xml), ivy_xml) is not None


def _home(ivy_xml: Path) -> Path:
    return cache_dir() / "jvm" / hashlib.sha256(ivy_xml.read_bytes()).hexdigest()[:16]


def _read(home: Path, ivy_xml: Path) -> dict[str, tuple[Path, ...]] | None:
    uses = [conf.attrib["name"] for conf in ET.parse(ivy_xml).iter("conf")]
    try:
        sizes: Any = json.loads((home / _COMPLETE).read_text())
        if not isinstance(sizes, dict) or {name.split("/")[0] for name in sizes} != set(uses):
            raise ValueError(f"it does not name {', '.join(uses)}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SetupError(f"{home / _COMPLETE} cannot be read ({error}): remove {home} and try again.") from error
    for name, size in sizes.items():
        path = home / name
        if not path.is_file() or path.stat().st_size != size:
            raise SetupError(f"{path} is missing or damaged: remove {home} and try again.")
    return {use: tuple(home / n for n in sorted(sizes) if n.startswith(f"{use}/")) for use in uses}


@contextmanager
def _only_one(home: Path, progress: Progress) -> Iterator[None]:
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / f"{home.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another process is fetching the JVM artifacts: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download(ivy_xml: Path, home: Path, progress: Progress) -> None:
    java = find_java()
    progress("fetching the JVM artifacts (once, about 60 MB) ...")
    work = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        settings = os.environ.get("RHEOSTAT_IVY_SETTINGS")
        if not settings:
            settings = str(work / "ivysettings.xml")
            Path(settings).write_text(_SETTINGS.format(cache=work / "ivy"))
        command = [
            str(java.executable), "-Djava.net.useSystemProxies=true", "-cp", str(_ivy_jar()), "org.apache.ivy.Main",
            "-settings", settings, "-ivy", str(ivy_xml), "-types", "jar", "bundle",
            "-retrieve", str(work / "jars" / "[conf]" / "[artifact]-[revision](-[classifier]).[ext]"),
        ]  # fmt: skip
        said = _run(command, progress)
        jars = sorted((work / "jars").rglob("*.jar"))
        if said is not None or not jars:
            raise SetupError(
                f"The JVM artifacts could not be fetched ({said or 'nothing came'}): check that this machine reaches "
                "Maven Central or a mirror named by an Ivy settings file in RHEOSTAT_IVY_SETTINGS, then try again."
            )
        sizes = {str(jar.relative_to(work / "jars")): jar.stat().st_size for jar in jars}
        (work / "jars" / _COMPLETE).write_text(json.dumps(sizes, indent=1))
        if home.exists():  # Without its complete file, or we would not be here.
            shutil.rmtree(home)
        (work / "jars").rename(home)
        progress(f"{len(jars)} JVM artifacts in {home}")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(command: list[str], progress: Progress) -> str | None:
    """Runs Ivy; None when it went well, else its most telling line."""
    trouble: str | None = None
    fetched = 0
    # In a session of its own and dying with us: a download nobody waits for any more is nobody's.
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
            elif trouble is None and re.search(r"unresolved dependency|FAILED|UnknownHost|Exception|timed out", line):
                trouble = line.strip().strip(":").strip()[:200]
        code = process.wait()
    finally:
        watchdog.cancel()
        if process.poll() is None:
            process.kill()
            process.wait()
    return None if code == 0 and trouble is None else trouble or f"Ivy ended with code {code}"


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SetupError("PySpark is not installed in this environment: install rheostat with its dependencies.")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-2*.jar"))
    if not found:
        raise SetupError("PySpark's jars hold no Ivy: reinstall pyspark.")
    return found[-1]
