#!/usr/bin/env bash
# Tests the page in Debian's Chromium: first with invented answers, then with a real Rosemary and a ring of Open vSwitch. `make
# ui-test` calls it as root.
#
#   ui/test/run.sh             SAVE=1 replaces the pictures in docs/images; ROSEMARY_UI_TESTS names one of the two files
#
# The network has namespaces of its own for network, mounts and processes, so nothing of it remains.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ "${1:-}" != inside ]; then
  exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" inside
fi

dir=$(mktemp -d -t rosemary-ui-test.XXXXXX)
trap 'rm -rf "$dir"' EXIT
mount -t tmpfs tmpfs /run
mkdir -p /run/netns
ip link set lo up

# Open vSwitch in user space.
export OVS_RUNDIR=$dir OVS_LOGDIR=$dir OVS_DBDIR=$dir
ovsdb-tool create "$dir/conf.db" /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server "$dir/conf.db" --remote="punix:$dir/db.sock" --detach --no-chdir --pidfile --log-file 2>/dev/null
ovs-vsctl --db="unix:$dir/db.sock" --no-wait init
ovs-vswitchd "unix:$dir/db.sock" --detach --no-chdir --pidfile --log-file 2>/dev/null
vsctl() { ovs-vsctl --db="unix:$dir/db.sock" "$@"; }

# Rosemary.
cc -std=c11 -shared -fPIC -Icrates/sdk/c -o "$dir/hostile.so" ui/test/hostile.c
cat >"$dir/rosemary.toml" <<TOML
[[app]]
name = "forwarding"
services = ["topology", "hosts", "stats"]
capabilities = ["packet-in", "packet-out", "packet-out.reserved", "flow.write", "group.write", "topology.read", "hosts.read", "stats.read"]

[[app]]
name = "hostile"
object = "hostile.so"
stage = "observe"
capabilities = ["packet-in", "http.serve"]
TOML
export ROSEMARY_CONFIG=$dir/rosemary.toml ROSEMARY_STATE_DIR=$dir/state ROSEMARY_RUNTIME_DIR=$dir/run
target/debug/rosemary up --allow-unsigned >"$dir/rosemary.log" 2>&1 &
rosemary=$!

# Four switches in a ring, a host at each. The description of a switch is HTML, and so is a port's name.
ring=4
for ((i = 1; i <= ring; i++)); do
  vsctl add-br "s$i" -- set bridge "s$i" datapath_type=netdev protocols=OpenFlow13 fail-mode=secure \
    "other-config:datapath-id=000000000000000$i" \
    "other-config:dp-desc=\"<img src=x onerror=window.hacked='switch'>\"" -- set-controller "s$i" tcp:127.0.0.1:6653
done
# Interfaces of a link that send packets of their own would look like hosts, and the topology refuses such a link.
echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
for ((i = 1; i <= ring; i++)); do
  next=$((i % ring + 1))
  ip link add "r$i" type veth peer name "l$next"
  ip link set "r$i" up
  ip link set "l$next" up
done
for ((i = 1; i <= ring; i++)); do
  vsctl add-port "s$i" "r$i" -- add-port "s$i" "l$i"
done
for ((tries = 0; tries < 240; tries++)); do
  [ "$(target/debug/rosemary links --json 2>/dev/null | grep -o '"from"' | wc -l)" != $((2 * ring)) ] || break
  sleep 0.5
done
for ((i = 1; i <= ring; i++)); do
  ip netns add "h$i"
  ip link add "<b>p$i" type veth peer name eth0 netns "h$i"
  ip -n "h$i" address add "10.0.0.$i/24" dev eth0
  ip -n "h$i" link set eth0 up
  ip netns exec "h$i" ethtool --offload eth0 tx off >/dev/null
  ip link set "<b>p$i" up
  vsctl add-port "s$i" "<b>p$i"
done

# Flows that no packet uses go away, so two hosts talk all the time.
ip netns exec h1 ping -i 0.5 10.0.0.2 >/dev/null &

status=0
export ROSEMARY_UI_TEST=$dir PATH="$PWD/target/debug:$PATH"
(cd target/ui/work && node --test-reporter spec --test --test-timeout 180000 --test-concurrency 1 ${ROSEMARY_UI_PATTERN:+--test-name-pattern "$ROSEMARY_UI_PATTERN"} ${ROSEMARY_UI_TESTS:-test/mocked.test.mjs test/real.test.mjs}) | tee "$dir/tests.log" || status=$?
# A test that did not run has not passed. With a pattern, others are left out on purpose.
if [ -z "${ROSEMARY_UI_PATTERN:-}" ]; then
  if ! grep -Eq '(^|[^a-z])pass [1-9]' "$dir/tests.log" || grep -E '(^|[^a-z])(skipped|todo|cancelled) [1-9]' "$dir/tests.log"; then
    echo "ui-test: some tests were skipped, or none ran" >&2
    status=1
  fi
fi
if [ $status != 0 ]; then tail -30 "$dir/rosemary.log" >&2; fi
kill $rosemary
wait $rosemary || true
exit $status
