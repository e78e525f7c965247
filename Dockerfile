# One image for every command: Debian, its Python and Java, the locked dependencies, the pinned JVM artifacts, rheostat.
#
# The layers go from what changes rarely to what changes daily, and every download is in a layer of its own: an edited
# source file costs seconds and no network. No `RUN --mount`, and no syntax line: any builder can build this file.
#
# It builds for amd64 and arm64. Four things depend on the machine: the base image, Java, the wheels with native code (NumPy, SciPy,
# pydantic and others) and the two codecs of the stage `native`. docs/how-to/run-with-docker.md has the command for both.
#
# For a build that can be repeated, give the base image by its digest: make image BASE=debian:bookworm-slim@sha256:...
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS base
# Java's package fails to set itself up when the folder of manual pages is not there, as on slim images. Of Java, the archive of
# classes for heaps of 32 GB and more stays out, and the symbols for older versions, which only a compiler reads.
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update \
 && apt-get install -y --no-install-recommends python3 openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin \
 && rm /usr/lib/jvm/java-17-openjdk-*/lib/ct.sym /usr/lib/jvm/java-17-openjdk-*/lib/server/classes_nocoops.jsa


# What builds, and is not shipped. Nothing below needs a build tool that is not pinned here.
FROM base AS tools
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3-venv \
 && rm -rf /var/lib/apt/lists/* \
 && python3 -m venv /opt/tools \
 && /opt/tools/bin/pip install --no-cache-dir hatchling==1.33.0 wheel==0.45.1


FROM tools AS dependencies
COPY requirements.lock /tmp/
# Two steps, so that the environment which is shipped holds no pip: wheels of exactly what the lock's hashes say, then
# these wheels, offline. Parts that no process of rheostat loads stay out, 255 MB: PySpark's examples, Spark Connect, its API of
# pandas, machine learning and graphs, Hive, the Scala shell, the state store RocksDB (the stream's state store is another),
# native code for other operating systems, the tests and data sets of libraries, and type stubs.
RUN /opt/tools/bin/pip wheel --no-cache-dir --no-build-isolation --no-deps --require-hashes \
      --wheel-dir /tmp/wheels --requirement /tmp/requirements.lock \
 && python3 -m venv --without-pip /opt/venv \
 && /opt/tools/bin/pip --python /opt/venv/bin/python install --no-index --no-deps /tmp/wheels/*.whl \
 && rm -rf /tmp/wheels \
 && cd /opt/venv/lib/python3*/site-packages \
 && rm -r pyspark/examples pyspark/data pyspark/jars/connect-repl \
      pyspark/sql/connect pyspark/pipelines pyspark/pandas pyspark/ml pyspark/mllib \
 && (cd pyspark/jars && for name in \
      rocksdbjni spark-connect spark-pipelines \
      spark-mllib spark-graphx breeze spire cats-kernel algebra blas lapack arpack JTransforms JLargeArrays \
      spark-hive hive-beeline hive-cli hive-common hive-exec hive-jdbc hive-metastore hive-serde hive-service-rpc hive-shims \
      derby derbyshared derbytools datanucleus javax.jdo jdo-api libthrift libfb303 HikariCP \
      spark-repl scala-compiler jline super-csv opencsv; \
    do rm "$name"[-_]*.jar || exit 1; done \
    && rm ./*-osx-*.jar ./*-windows-*.jar) \
 && find river/datasets -type f ! -name '*.py' -delete \
 && find numpy scipy river -type d -name tests -prune -exec rm -r {} + \
 && find . -name '*.pyi' -delete


# Two codecs of Kafka topics, snappy and zstd, are native code that their jars unpack into /tmp and load from there, which
# a tmpfs as Docker mounts it (noexec) forbids. So they are unpacked here; SPARK_SUBMIT_OPTS below says where they are.
FROM dependencies AS native
RUN cd /opt/venv/lib/python3*/site-packages/pyspark/jars \
 && for jar in snappy-java-*.jar zstd-jni-*.jar; do python3 -m zipfile -e "$jar" /tmp/jars; done \
 && mkdir -p /opt/rheostat/native \
 && cp "/tmp/jars/org/xerial/snappy/native/Linux/$(uname -m)/libsnappyjava.so" /opt/rheostat/native/ \
 && cp "/tmp/jars/linux/$(uname -m | sed s/x86_64/amd64/)"/libzstd-jni-*.so /opt/rheostat/native/libzstd-jni.so \
 && rm -rf /tmp/jars


# Only the files that say what to fetch and how: a change elsewhere in the code fetches nothing again.
FROM dependencies AS artifacts
COPY conf/jvm/ivy.xml conf/jvm/ivy.sha256 /src/conf/jvm/
COPY rheostat/__init__.py rheostat/errors.py /src/rheostat/
COPY rheostat/run/__init__.py rheostat/run/process.py /src/rheostat/run/
COPY rheostat/config/__init__.py rheostat/config/resources.py /src/rheostat/config/
COPY rheostat/jvm/__init__.py rheostat/jvm/artifacts.py rheostat/jvm/digests.py rheostat/jvm/java.py /src/rheostat/jvm/
COPY streaming/__init__.py /src/streaming/
COPY streaming/shared/__init__.py streaming/shared/deferred_interrupts.py /src/streaming/shared/
WORKDIR /src
# Spark's connector and Kafka's tools need the same kafka-clients: the second copy is a link, which saves 10 MB.
RUN RHEOSTAT_CACHE_DIR=/opt/rheostat/cache PYTHONDONTWRITEBYTECODE=1 /opt/venv/bin/python -c \
      "from rheostat.jvm.artifacts import resolve_artifacts; resolve_artifacts(print)" \
 && rm -f /opt/rheostat/cache/jvm/*.lock \
 && cd /opt/rheostat/cache/jvm/*/spark \
 && for jar in *.jar; do if cmp -s "$jar" "../kafka/$jar"; then ln -sf "../kafka/$jar" "$jar"; fi; done


# --root puts the installed files, and nothing of what was there before, into a tree that is one small layer.
FROM dependencies AS project
COPY pyproject.toml README.md compose.yaml .env /src/
COPY conf/ /src/conf/
COPY dashboards/ /src/dashboards/
COPY deploy/ /src/deploy/
COPY streaming/ /src/streaming/
COPY tuner/ /src/tuner/
COPY learning/ /src/learning/
COPY rheostat/ /src/rheostat/
RUN /opt/tools/bin/pip wheel --no-index --no-build-isolation --no-deps --wheel-dir /tmp/wheel /src \
 && /opt/tools/bin/pip --python /opt/venv/bin/python install --no-index --no-deps --root /installed /tmp/wheel/*.whl


# The stream's inner loops and the CreateTopicPolicy are Java, compiled on first use; where nobody may write into the cache, here.
FROM dependencies AS kernel
COPY --from=artifacts /opt/rheostat/cache /opt/rheostat/cache
COPY --from=project /installed/opt/venv /opt/venv
RUN RHEOSTAT_CACHE_DIR=/opt/rheostat/cache PYTHONDONTWRITEBYTECODE=1 /opt/venv/bin/python -c \
      "from rheostat.jvm.kernel import stream_jars; stream_jars(progress=print); \
       from rheostat.limits.policy.export import policy_files; policy_files(print)" \
 && mkdir /kernel && cd /opt/rheostat/cache && cp --parents jvm/*/kernel-*.jar jvm/*/create-topic-policy-*.jar /kernel


FROM base
ARG BASE
LABEL org.opencontainers.image.title="rheostat" \
      org.opencontainers.image.base.name="$BASE" \
      org.opencontainers.image.description="Adjusts Kafka's replication throttles and quotas" \
      org.opencontainers.image.licenses="Apache-2.0"
# A uid that no distribution gives to anybody, with an entry in passwd: Hadoop's login inside Spark asks for a name.
RUN useradd --uid 10001 --user-group --home-dir /var/lib/rheostat --create-home --shell /usr/sbin/nologin rheostat
COPY --from=dependencies /opt/venv /opt/venv
COPY --from=native /opt/rheostat/native /opt/rheostat/native
COPY --from=artifacts /opt/rheostat/cache /opt/rheostat/cache
COPY --from=project /installed/opt/venv /opt/venv
COPY --from=kernel /kernel /opt/rheostat/cache
# Without SPARK_LOCAL_IP Spark does not start where the container's host name does not resolve, and where it does, it
# listens for executors on an address that others reach; ours are all inside the one process.
ENV PATH=/opt/venv/bin:$PATH \
    LANG=C.UTF-8 \
    PYTHONUNBUFFERED=1 \
    SPARK_LOCAL_IP=127.0.0.1 \
    SPARK_SUBMIT_OPTS="-Dorg.xerial.snappy.lib.path=/opt/rheostat/native -DZstdNativePath=/opt/rheostat/native/libzstd-jni.so" \
    RHEOSTAT_CACHE_DIR=/opt/rheostat/cache \
    RHEOSTAT_STATE_DIR=/var/lib/rheostat
USER 10001:10001
# Spark and whoever else writes into the current folder find one that is theirs.
WORKDIR /var/lib/rheostat
VOLUME /var/lib/rheostat
# The metrics of tuner, collector, stream and learn, where the settings have them listen: tuner.http, collector.http and so on.
EXPOSE 9464 9465 9466 9467
# For `rheostat run` and `tune`. Each tuner leaves its address in the state folder, so the port and TLS are those of its settings.
# Its certificate is for the name that others ask for; this asks the machine itself, and tells it nothing.
HEALTHCHECK --interval=10s --timeout=5s --start-period=90s --retries=3 \
  CMD ["/usr/bin/python3", "-IS", "-c", "import glob, os, ssl, sys, urllib.request as u; files = glob.glob(os.environ['RHEOSTAT_STATE_DIR'] + '/tuner-address*'); [u.urlopen(open(f).read().strip() + '/healthz', timeout=4, context=ssl._create_unverified_context()) for f in files]; sys.exit(not files)"]
ENTRYPOINT ["rheostat"]
CMD ["--help"]
