#!/bin/bash
# Runs every test but the campaigns, in two streams; `make test` calls it. Tests on real brokers mostly wait, for quota windows and
# for signals, so the first stream leaves the processor to what only computes. The second stream goes on with the other real tests.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

pytest=(.venv/bin/python -m pytest)
# Two halves of about the same length; a new file falls into one of them by its name.
first_half=(tests/integration/test_[m-z]*.py)
second_half=(tests/compat tests/contract tests/faults tests/integration/test_[a-l]*.py)

second_stream() {
  local computed=0 real=0
  # It gives way to the real brokers of the first stream, whose tests have deadlines.
  nice -n 10 "${pytest[@]}" -n 2 --dist loadfile --ignore=tests/compat --ignore=tests/contract --ignore=tests/faults --ignore=tests/integration || computed=$?
  "${pytest[@]}" "${second_half[@]}" || real=$?
  return $((computed > real ? computed : real))
}

log=$(mktemp)
second_stream >"$log" 2>&1 &
second=$!
clean_up() {
  local code=$?
  trap - EXIT
  if kill -0 "$second" 2>/dev/null; then
    # Its children first: a shell ends only after the command that it waits for.
    pkill -TERM -P "$second"
    kill "$second" 2>/dev/null
    wait "$second" 2>/dev/null
    cat "$log"
  fi
  rm -f "$log"
  exit "$code"
}
trap clean_up EXIT
# Without these a signal would skip the trap above.
trap 'exit 130' INT
trap 'exit 143' TERM HUP

code=0
"${pytest[@]}" "${first_half[@]}" || code=$?
other=0
wait "$second" || other=$?
echo "== second stream: what only computes, then the other half of the real tests (exit code $other)"
# Where it has passed, its last lines do.
if [ "$other" -eq 0 ]; then tail -n 60 "$log"; else cat "$log"; fi
exit $((code > other ? code : other))
