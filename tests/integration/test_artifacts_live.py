"""Missing or wrong JVM artifacts and Java installations: each is reported in one sentence without a stack trace."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from lab_parts import RHEOSTAT

from rheostat.config.resources import conf_file
from rheostat.errors import SetupError
from rheostat.jvm import kernel as kernel_module
from rheostat.jvm.artifacts import Artifacts, resolve_artifacts
from rheostat.jvm.digests import sha256_of
from rheostat.jvm.java import find_java
from rheostat.jvm.kernel import kernel_jar

# As a command does it: through the program's own handling of errors.
RESOLVE = """
import sys
from rheostat import cli
from rheostat.jvm.artifacts import resolve_artifacts

def resolve(*args, **kwargs):
    print(len(resolve_artifacts(lambda line: print("progress:", line)).kafka_jars))

cli.app = resolve
cli.main()
"""


@pytest.fixture(scope="module")
def artifacts() -> Artifacts:
    found = resolve_artifacts()
    kernel_jar(found)  # On a machine's first run it is not there yet, and the copies below are to have it.
    return found


@pytest.fixture
def cache(artifacts: Artifacts, tmp_path: Path) -> Path:
    """A cache for this test: the same folder names, and hard links to the same files."""
    home = artifacts.jmx_agent.parents[1]
    shutil.copytree(home, tmp_path / "cache" / "jvm" / home.name, copy_function=linked)
    return tmp_path / "cache"


def linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:  # Another process has renamed a file that it was writing.
        return
    except OSError:  # Another file system.
        shutil.copy2(source, target)


def home_of(cache: Path) -> Path:
    return next(entry for entry in (cache / "jvm").iterdir() if entry.is_dir())


def start_resolve(env: dict[str, str]) -> subprocess.Popen[str]:
    own = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "RHEOSTAT_IVY_SETTINGS")}
    return subprocess.Popen(
        [sys.executable, "-c", RESOLVE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**own, **env}
    )  # fmt: skip


def resolve(env: dict[str, str]) -> tuple[int, str, str]:
    process = start_resolve(env)
    try:
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
    return process.returncode, out, err


def fake_java(folder: Path, script: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return java.parent


def one_sentence(text: str) -> str:
    """Returns the error, and checks that it is one line without a stack trace."""
    lines = text.strip().splitlines()
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


def test_cached_artifacts_need_no_java_and_no_network(cache: Path, tmp_path: Path) -> None:
    code, out, err = resolve({"RHEOSTAT_CACHE_DIR": str(cache), "PATH": str(tmp_path / "nothing")})

    assert (code, err) == (0, "")
    assert int(out) > 20  # Nothing else: no progress is shown where nothing is done.


def test_every_pinned_artifact_is_present(artifacts: Artifacts) -> None:
    assert "jmx_prometheus_javaagent-1.0.1" in artifacts.jmx_agent.name
    assert any(jar.name.startswith("kafka_2.13-4.2.0") for jar in artifacts.kafka_jars)
    assert any(jar.name.startswith("spark-sql-kafka-0-10_2.13-4.2.0") for jar in artifacts.spark_jars)


def test_kernel_is_compiled_once_to_identical_bytes(cache: Path, artifacts: Artifacts) -> None:
    """Equal sources give equal bytes, so executors and the class archive can recognise the jar."""
    known = kernel_jar(artifacts)
    mine = replace(artifacts, home=home_of(cache))
    there = {entry.name for entry in mine.home.iterdir()}  # Also of other sources, where those were compiled before.
    (mine.home / known.name).unlink()
    said: list[str] = []
    made = kernel_jar(mine, said.append)
    assert (made.name, made.read_bytes()) == (known.name, known.read_bytes())
    assert not made.samefile(known)
    assert kernel_jar(mine, said.append) == made
    assert [line.split("(")[0].strip() for line in said] == ["compiling the stream's kernel"]
    assert {entry.name for entry in mine.home.iterdir()} == there, "nothing else is left"


def test_compile_errors_name_file_and_line(
    artifacts: Artifacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "Wrong.java").write_text("package rheostat.stream;\nclass Wrong { int x = nothing; }\n")
    spark = kernel_module.package_folder("pyspark")
    monkeypatch.setattr(kernel_module, "package_folder", {"streaming": tmp_path, "pyspark": spark}.__getitem__)
    with pytest.raises(SetupError, match=r"the stream's kernel cannot be compiled: (?s:.)*Wrong\.java \(at line 2\)"):
        kernel_jar(artifacts)
    (tmp_path / "kernel" / "Wrong.java").unlink()
    with pytest.raises(SetupError, match="lacks the Java sources of the stream's kernel"):
        kernel_jar(artifacts)


def test_unwritable_cache_is_named(artifacts: Artifacts, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=rf"cannot be written to {tmp_path}/gone .*RHEOSTAT_CACHE_DIR"):
        kernel_jar(replace(artifacts, home=tmp_path / "gone"))


def flipped(jar: Path) -> None:
    """Changes two bytes in the middle of the file and keeps its size."""
    content = bytearray(jar.read_bytes())
    for place in (len(content) // 2, len(content) // 2 + 1):
        content[place] ^= 0xFF
    jar.unlink()  # It is a link: writing through it would damage the real one.
    jar.write_bytes(content)


def test_jar_with_two_flipped_bytes_is_refused(cache: Path, artifacts: Artifacts) -> None:
    jar = next((home_of(cache) / "jmx").glob("*.jar"))
    flipped(jar)

    code, out, err = resolve({"RHEOSTAT_CACHE_DIR": str(cache)})

    assert (code, out) == (1, "")
    expected, found = sha256_of(artifacts.jmx_agent), sha256_of(jar)
    assert one_sentence(err) == (
        f"{jar} is damaged or was changed (SHA-256 expected {expected}, found {found}): "
        f"remove {home_of(cache)} and try again; rheostat then downloads the files again."
    )


def test_missing_jar_is_named(cache: Path) -> None:
    jar = next((home_of(cache) / "jmx").glob("*.jar"))
    jar.unlink()

    code, _, err = resolve({"RHEOSTAT_CACHE_DIR": str(cache)})

    assert code == 1
    assert str(jar) in one_sentence(err)
    assert one_sentence(err).endswith(
        f"remove {home_of(cache)} and try again; rheostat then downloads the files again."
    )


def test_registry_serving_another_jar_is_refused(artifacts: Artifacts, tmp_path: Path) -> None:
    mirror = mirror_of(artifacts, tmp_path / "registry")
    flipped(next(mirror.rglob("ecj-*.jar")))
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(registry(mirror.as_uri() + "/", tmp_path))

    code, _, err = resolve({"RHEOSTAT_CACHE_DIR": str(tmp_path / "cache"), "RHEOSTAT_IVY_SETTINGS": str(settings)})

    assert code == 1
    assert re.search(
        r"^A fetched JVM artifact differs from the digest .*/compiler/ecj-\S+ is damaged or was changed", err
    )
    assert sha256_of(artifacts.compiler) in one_sentence(err)
    assert [p.name for p in (tmp_path / "cache" / "jvm").iterdir() if p.suffix != ".lock"] == []


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (None, "No Java on PATH and JAVA_HOME is not set: install Java 17 or newer"),
        ("""echo 'openjdk version "11.0.2" 2019-01-15' >&2""", "Java 11 at .* is too old, 17 or newer is needed"),
        ("""echo 'java version "1.8.0_392"' >&2""", "Java 8 at .* is too old, 17 or newer is needed"),
        ("echo 'not a java' >&2", "does not report its version"),
        ("exit 1", "does not run"),
    ],
    ids=["none", "11", "8", "something else", "broken"],
)
def test_missing_or_unfit_java_is_reported_in_one_sentence(tmp_path: Path, script: str | None, expected: str) -> None:
    path = tmp_path / "nothing" if script is None else fake_java(tmp_path / "java", script)

    code, out, err = resolve({"RHEOSTAT_CACHE_DIR": str(tmp_path / "cache"), "PATH": str(path)})

    assert (code, out) == (1, "")
    assert re.search(expected, one_sentence(err))
    assert "apt-get install openjdk-17-jre-headless" in err


def test_java_home_has_precedence_and_is_named_if_wrong(tmp_path: Path) -> None:
    code, _, err = resolve({"RHEOSTAT_CACHE_DIR": str(tmp_path / "cache"), "JAVA_HOME": str(tmp_path / "gone")})

    assert code == 1
    assert f"JAVA_HOME={tmp_path / 'gone'}" in one_sentence(err)


def test_unreachable_registry_is_reported_and_leaves_no_partial_file(tmp_path: Path) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(registry("http://127.0.0.1:9/", tmp_path))
    code, _, err = resolve({"RHEOSTAT_CACHE_DIR": str(tmp_path / "cache"), "RHEOSTAT_IVY_SETTINGS": str(settings)})

    assert code == 1
    said = one_sentence(err)
    assert said.startswith("The JVM artifacts could not be fetched (")
    assert "check that this machine reaches Maven Central or a mirror" in said
    assert [p.name for p in (tmp_path / "cache" / "jvm").iterdir() if p.suffix != ".lock"] == []


def test_two_concurrent_processes_fetch_artifacts_once(artifacts: Artifacts, tmp_path: Path) -> None:
    """The registry is a local folder with the real artifacts, so the test needs no network."""
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(registry(mirror_of(artifacts, tmp_path / "registry").as_uri() + "/", tmp_path))
    env = {"RHEOSTAT_CACHE_DIR": str(tmp_path / "cache"), "RHEOSTAT_IVY_SETTINGS": str(settings)}

    both = [start_resolve(env) for _ in range(2)]
    try:
        answers = [process.communicate(timeout=120) for process in both]
    finally:
        for process in both:
            process.kill()

    assert [(p.returncode, err) for p, (_, err) in zip(both, answers, strict=True)] == [(0, ""), (0, "")]
    said = [out for out, _ in answers]
    assert sorted("once, about 60 MB" in text for text in said) == [False, True]
    counts = {text.strip().splitlines()[-1] for text in said}
    assert counts == {str(len(artifacts.kafka_jars))}
    folders = [p for p in (tmp_path / "cache" / "jvm").iterdir() if p.suffix != ".lock"]
    assert [p.name for p in folders] == [artifacts.jmx_agent.parents[1].name]


def registry(root: str, folder: Path) -> str:
    return f"""<ivysettings>
      <settings defaultResolver="mirror"/><caches defaultCacheDir="{folder / "ivy"}"/>
      <resolvers><ibiblio name="mirror" m2compatible="true" root="{root}"/></resolvers>
    </ivysettings>"""


def mirror_of(artifacts: Artifacts, root: Path) -> Path:
    """A Maven registry with what conf/jvm/ivy.xml names; its kafka_2.13 depends on all other Kafka jars."""
    jars = [*artifacts.spark_jars, *artifacts.kafka_jars, artifacts.jmx_agent, artifacts.compiler]
    named = [
        (d.attrib["org"], d.attrib["name"], d.attrib["rev"])
        for d in ET.parse(conf_file("jvm", "ivy.xml")).iter("dependency")
    ]
    taken: set[Path] = set()
    for organisation, name, revision in named:
        jar = next(j for j in jars if j.name == f"{name}-{revision}.jar")
        taken.add(jar)
        put(root, organisation, name, revision, jar)
    rest = [jar for jar in artifacts.kafka_jars if jar not in taken]
    brought = []
    for jar in rest:
        name, revision = split(jar)
        put(root, "brought", name, revision, jar)
        brought.append(("brought", name, revision))
    pom(root, "org.apache.kafka", "kafka_2.13", "4.2.0", brought)
    return root


def split(jar: Path) -> tuple[str, str]:
    """``a-b-1.2.jar`` → ``a-b``, ``1.2``."""
    match = re.fullmatch(r"(.+?)-(\d.*)\.jar", jar.name)
    assert match is not None, jar.name
    return match[1], match[2]


def put(root: Path, organisation: str, name: str, revision: str, jar: Path) -> None:
    folder = root.joinpath(*organisation.split("."), name, revision)
    folder.mkdir(parents=True)
    linked(str(jar), str(folder / f"{name}-{revision}.jar"))
    pom(root, organisation, name, revision, [])


def pom(root: Path, organisation: str, name: str, revision: str, needs: list[tuple[str, str, str]]) -> None:
    needed = "".join(
        f"<dependency><groupId>{o}</groupId><artifactId>{n}</artifactId><version>{r}</version></dependency>"
        for o, n, r in needs
    )
    folder = root.joinpath(*organisation.split("."), name, revision)
    (folder / f"{name}-{revision}.pom").write_text(
        f"<project><modelVersion>4.0.0</modelVersion><groupId>{organisation}</groupId><artifactId>{name}</artifactId>"
        f"<version>{revision}</version><dependencies>{needed}</dependencies></project>"
    )


def test_find_java_returns_java_from_java_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = find_java()
    bin_folder = fake_java(tmp_path / "java", f'exec {real.executable} "$@"')
    monkeypatch.setenv("JAVA_HOME", str(bin_folder.parent))

    found = find_java()

    assert (found.executable, found.major) == (bin_folder / "java", real.major)


def test_doctor_advises_on_java_and_artifacts(tmp_path: Path) -> None:
    config = tmp_path / "rheostat.yaml"
    config.write_text(
        "cluster: a\nkafka: {bootstrap_servers: '127.0.0.1:9', request_timeout_s: 1}\n"
        f"stream: {{checkpoint_dir: {tmp_path}}}\ntuner: {{rate_bytes_per_s_max: 1e8}}\n"
    )
    done = subprocess.run(
        [*RHEOSTAT, "doctor", "--config", str(config)], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PATH": str(tmp_path / "nothing"), "RHEOSTAT_CACHE_DIR": str(tmp_path / "cache")},
    )  # fmt: skip

    assert done.returncode == 3
    assert "FAILED java: No Java on PATH" in done.stdout
    assert "advice JVM artifacts: not in the cache yet" in done.stdout
    assert "rheostat doctor --fetch" in done.stdout
    assert "FAILED reachability" in done.stdout
