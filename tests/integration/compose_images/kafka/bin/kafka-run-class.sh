#!/bin/bash
# The quick compiler and the serial collector, as five JVMs may share two cores.
# shellcheck disable=SC2086 - the options are words.
exec java ${KAFKA_HEAP_OPTS:--Xmx256m} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 ${KAFKA_OPTS:-} \
  -Dlog4j2.configurationFile=/etc/kafka/docker/log4j2.yaml -cp "/opt/kafka/libs/*" "$@"
