#!/bin/bash
# Runs every test but the campaigns, in three streams; `make test` calls it. Tests on real brokers mostly wait, for quota windows
# and for signals, so two of their files run at a time. Meanwhile the tests that only compute use the processor, and give way to
# the brokers. The tests of the container image wait for downloads.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

pytest=(.venv/bin/python -m pytest)
containers=(tests/integration/test_image.py tests/integration/test_compose_live.py)
# The workers take files in this order. The longest come first, so that no worker begins one of them when the others have ended.
real=(
  tests/integration/test_story_demo.py
  tests/integration/test_schedule_live.py
  tests/integration/test_calibrate_live.py
  tests/integration/test_orders_live.py
  tests/integration/test_stream_recovery.py
  tests/integration/test_rights_live.py
  tests/compat
  tests/contract
  tests/faults
  tests/integration
)
real_only=("${containers[@]/#/--ignore=}")
computed_only=(--ignore=tests/compat --ignore=tests/contract --ignore=tests/faults --ignore=tests/integration)

run_real() { "${pytest[@]}" -n 2 --dist loadfile --no-loadscope-reorder "${real_only[@]}" "${real[@]}"; }
run_computed() { nice -n 10 "${pytest[@]}" -n 2 --dist loadfile "${computed_only[@]}"; }
run_containers() { "${pytest[@]}" "${containers[@]}"; }

logs=$(mktemp -d)
run_computed >"$logs/computed" 2>&1 &
computed=$!
run_containers >"$logs/containers" 2>&1 &
containers_stream=$!

clean_up() {
  local code=$? pid
  trap - EXIT
  for pid in "$computed" "$containers_stream"; do
    if kill -0 "$pid" 2>/dev/null; then
      # Its children first: a shell ends only after the command that it waits for.
      pkill -TERM -P "$pid"
      kill "$pid" 2>/dev/null
      wait "$pid" 2>/dev/null
      cat "$logs"/*
    fi
  done
  rm -rf "$logs"
  exit "$code"
}
trap clean_up EXIT
# Without these a signal would skip the trap above.
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# report NAME PID: waits for the stream and prints its log; where it has passed, the last lines do. Returns its exit code.
report() {
  local name=$1 pid=$2 code=0
  wait "$pid" || code=$?
  echo "== stream: $name (exit code $code)"
  if [ "$code" -eq 0 ]; then tail -n 60 "$logs/$name"; else cat "$logs/$name"; fi
  return "$code"
}

code=0
run_real || code=$?
report containers "$containers_stream" || code=$?
report computed "$computed" || code=$?
exit "$code"
