#!/bin/sh
# Runs rheostat so that Prometheus, in a container of its own, can read the metrics of all four processes with the token of prepare.sh.
set -eu
token=$(cat /opt/prepared/read-token)
for process in TUNER:9464 COLLECTOR:9465 STREAM:9466 LEARN:9467; do
  http=RHEOSTAT_${process%:*}__HTTP
  export "${http}__HOST=0.0.0.0" "${http}__PORT=${process#*:}" "${http}__READ_TOKEN=$token"
done
exec rheostat "$@"
