#!/bin/bash
# A Docker engine for a machine where none runs: CI, or a container in which one develops.
# Whoever has a running Docker does not need this.
#
#   ci/docker-engine.sh start PIDFILE   does nothing when an engine answers; else starts dockerd and writes its pid
#   ci/docker-engine.sh stop PIDFILE    ends the engine that PIDFILE names, and no other
set -euo pipefail

START_S_MAX=30
STOP_S_MAX=30

answers() { timeout 10 docker info >/dev/null 2>&1; }

give_up() {
  echo "docker-engine: $*" >&2
  exit 1
}

# The pid is ours only while it still names a dockerd: numbers are given out again.
is_engine() { [ "$(cat "/proc/$1/comm" 2>/dev/null)" = dockerd ]; }

# The few lines of its log that say why.
last_words() { { grep -E 'failed to start|level=(error|fatal)' "$1" || tail -n 5 "$1"; } 2>/dev/null | tail -n 5 >&2; }

start() {
  local pid_file=$1 log=$1.log pid
  command -v docker >/dev/null || give_up "there is no docker client here"
  if answers; then
    echo "docker-engine: one answers already"
    return
  fi
  # Somebody chose an engine elsewhere. Starting another here would not bring that one back.
  [ -z "${DOCKER_HOST:-}" ] || give_up "the engine of DOCKER_HOST does not answer"
  command -v dockerd >/dev/null || give_up "there is no dockerd here (Debian: apt-get install docker.io)"
  [ "$(id -u)" = 0 ] || give_up "starting dockerd needs root"
  # A second dockerd takes the first one's bridge away, so one that only doesn't answer yet is waited for.
  if pid=$(cat /var/run/docker.pid 2>/dev/null) && is_engine "$pid"; then
    echo "docker-engine: waiting for the one with pid $pid"
  else
    # A session of its own: Ctrl-C in the terminal must not end it before the containers' tests have cleaned up.
    setsid dockerd </dev/null >"$log" 2>&1 &
    pid=$!
    echo "$pid" >"$pid_file"
    echo "docker-engine: started dockerd, pid $pid, log $log"
  fi
  local deadline=$((SECONDS + START_S_MAX))
  until answers; do
    if ! is_engine "$pid" && ! kill -0 "$pid" 2>/dev/null; then
      last_words "$log" || true
      rm -f "$pid_file"
      give_up "dockerd ended at once, see above"
    fi
    if [ "$SECONDS" -ge "$deadline" ]; then
      last_words "$log" || true
      give_up "dockerd did not answer within $START_S_MAX s"
    fi
    sleep 0.2
  done
}

stop() {
  local pid_file=$1 pid
  pid=$(cat "$pid_file" 2>/dev/null) || return 0
  if is_engine "$pid"; then
    kill -TERM "$pid"
    local deadline=$((SECONDS + STOP_S_MAX))
    while is_engine "$pid"; do
      [ "$SECONDS" -lt "$deadline" ] || give_up "dockerd $pid does not end"
      sleep 0.2
    done
    echo "docker-engine: ended dockerd $pid"
  fi
  rm -f "$pid_file"
}

case "${1:-}:${2:-}" in
  start:?*) start "$2" ;;
  stop:?*) stop "$2" ;;
  *) give_up "usage: $0 start|stop PIDFILE" ;;
esac
