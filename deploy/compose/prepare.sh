#!/bin/sh
# Fills the volume `prepared`: the JMX agent for Kafka's containers, and the token with which Prometheus reads rheostat's metrics.
# Each further start keeps the token, and takes the agent of the image that starts.
set -eu
umask 022
cd /var/lib/rheostat
cp "$RHEOSTAT_CACHE_DIR"/jvm/*/jmx/jmx_prometheus_javaagent-*.jar jmx-agent.jar.part
mv jmx-agent.jar.part jmx-agent.jar
if [ ! -s read-token ]; then
  python -c 'import secrets; print(secrets.token_hex(24))' >read-token.part
  mv read-token.part read-token
fi
