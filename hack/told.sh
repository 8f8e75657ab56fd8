#!/bin/sh
# told.sh WHAT COMMAND [ARGUMENT ...]: runs a command that says nothing by itself, and tells
# every 15 seconds that it goes on.
what=$1
shift
(
	seconds=0
	while sleep 15 >/dev/null 2>&1; do
		seconds=$((seconds + 15))
		echo "  still compiling $what (${seconds} s)" >&2
	done
) &
ticker=$!
trap 'kill "$ticker" 2>/dev/null' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
"$@"
