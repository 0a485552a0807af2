#!/bin/sh
# Prints docs/ryu-apps.md from what the tests have noted: ryu-table.sh DIR.
set -eu
cat <<'END'
# Apps of Ryu that run on Rosemary

`make ryu` runs them on Open vSwitch and writes this table.

| app of Ryu 4.34 | OpenFlow | what its test shows |
| --- | --- | --- |
END
cat "$1"/passed/*
