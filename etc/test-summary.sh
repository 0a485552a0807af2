#!/bin/sh
# Sums up the output of `cargo test ... -- --show-output`: test-summary.sh WHAT LOG.
#
# Prints how many tests passed, and each skipped test with its reason. Skipped are ignored tests, and tests that printed
# `SKIPPED: why` or `SKIPPED: NAME: why` and returned. Cargo counts the latter as passed.
set -eu
exec awk -v what="$1" '
	function skip(name, why) { if (!(name in reasons)) { names[++skipped] = name; reasons[name] = why } }
	/^---- .* stdout ----$/ { test = $2 }
	/^test result: / { for (at = 1; at < NF; at++) if ($(at + 1) ~ /^passed/) passed += $at; test = "" }
	/^test .* \.\.\. ignored/ {
		name = $0; sub(/^test /, "", name); sub(/ \.\.\. ignored.*/, "", name)
		why = $0; if (!sub(/^.* \.\.\. ignored, /, "", why)) why = "ignored without a reason"
		skip(name, why)
	}
	/SKIPPED: / {
		why = $0; sub(/^.*SKIPPED: /, "", why)
		name = test
		# Written past the captured output, with the name in front.
		if (match(why, /^[a-z_0-9:]+: /)) { name = substr(why, 1, RLENGTH - 2); why = substr(why, RLENGTH + 1) }
		if (!(name in reasons)) returned++
		skip(name, why)
	}
	END {
		printf "%d %s passed, %d skipped%s\n", passed - returned, what, skipped, skipped ? ":" : "."
		for (at = 1; at <= skipped; at++) print "  " names[at] ": " reasons[names[at]]
	}' "$2"
