#!/bin/sh
# progress.sh NAME COMMAND [ARGUMENT ...]: runs a command without output of its own, and
# reports every 15 seconds that NAME is still being compiled.
name=$1
shift
(
	seconds=0
	while sleep 15 >/dev/null 2>&1; do
		seconds=$((seconds + 15))
		echo "  still compiling $name (${seconds} s)" >&2
	done
) &
ticker=$!
trap 'kill "$ticker" 2>/dev/null' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
"$@"
