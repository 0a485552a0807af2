#!/usr/bin/env bash
# Makes of10.hex to of15.hex: the messages of a session with a real Open vSwitch in each version.
#
#   sudo ./make.sh [NAME]...   # needs openvswitch-switch, tcpdump, tshark, iproute2; 20 seconds each
#
# NAME is of10, of11, of12, of13, of14 or of15; without one, all are made. It runs in its own network and
# mount namespaces and changes only these files. Each message is a
# line of hexadecimal digits, followed by the output of "ovs-ofctl ofp-print" as a comment. Of
# messages that differ only in the xid, the first is kept; of large messages, the first of each kind.
# After a run, review "git diff". Then run "UPDATE_GOLDEN=1 cargo test -p rosemary-openflow --test
# golden", which writes the decoded messages to of10.txt to of15.txt; compare these with the comments.
set -euo pipefail

if [ "${1-}" != inside ]; then
  [ "$(id -u)" = 0 ] || { echo "make.sh: only root can make namespaces: sudo $0" >&2; exit 1; }
  exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" inside "$@"
fi
shift

here=$(cd "$(dirname "$0")" && pwd)
export LC_ALL=C PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
mount -t tmpfs none /run
mkdir /run/golden
for variable in OVS_RUNDIR OVS_DBDIR OVS_LOGDIR OVS_SYSCONFDIR; do
  export "$variable=/run/golden"
done
cd /run/golden

# A switch with three ports, and a packet that the sessions send.
ip link set lo up
ovsdb-tool create conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server --remote=punix:db.sock conf.db 2>ovsdb-server.log &
ovs-vswitchd unix:/run/golden/db.sock 2>ovs-vswitchd.log &
for _ in $(seq 100); do [ -S db.sock ] && break; sleep 0.1; done
vsctl() { ovs-vsctl --timeout=10 --db=unix:/run/golden/db.sock "$@"; }
vsctl --no-wait init
vsctl add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure \
  other-config:datapath-id=00000000000000fe other-config:dp-desc="a golden switch" \
  protocols=OpenFlow10,OpenFlow13 -- set-controller br0 ptcp:6653:127.0.0.1
for port in 1 2 3; do
  ip link add "p$port" address "02:00:00:00:00:0$port" type veth peer "h$port" address "02:00:00:00:01:0$port"
  ip link set "p$port" up
  ip link set "h$port" up
  vsctl add-port br0 "p$port" -- set interface "p$port" "ofport_request=$port"
done
# Queues, if the kernel supports them.
if tc qdisc add dev p3 root htb 2>/dev/null; then
  tc qdisc del dev p3 root
  vsctl set port p3 qos=@qos -- \
    --id=@qos create qos type=linux-htb other-config:max-rate=1000000 queues:0=@q0 queues:7=@q7 -- \
    --id=@q0 create queue other-config:min-rate=100000 -- \
    --id=@q7 create queue other-config:min-rate=200000 other-config:max-rate=500000 >qos.log
fi
packet=ffffffffffff02000000010108004500001c00010000401166ce0a0000010a000002138813890008d6f0

# Runs ovs-ofctl on the switch: of [--OPTION...] COMMAND [ARGUMENT]...
of() {
  local options=()
  while [ "${1:0:1}" = - ]; do options+=("$1"); shift; done
  local command=$1; shift
  ovs-ofctl --timeout=10 -O "$version" "${options[@]}" "$command" tcp:127.0.0.1:6653 "$@"
}
# Like `of`, but may fail: a version may reject the command, and the error is also a message.
try() { of "$@" >/dev/null 2>&1 || true; }

session() {
  version=$1
  for command in show dump-desc dump-tables get-frags; do try "$command"; done
  try set-frags drop
  try get-frags
  try set-frags normal
  try mod-port 2 no-flood
  try mod-port 2 flood
  try mod-port 2 down
  try mod-port 2 up
  try mod-table 1 controller

  # A listener that receives packet-ins, flow-removeds and port-statuses.
  ovs-ofctl -O "$version" -P standard monitor tcp:127.0.0.1:6653 65534 >monitor.log 2>&1 &
  local monitor=$!
  sleep 0.5

  try add-flow "in_port=1,actions=controller:128"
  try add-flow "in_port=2,priority=7,cookie=0xc00c1e,idle_timeout=60,hard_timeout=600,send_flow_rem,actions=output:1,output:3"
  try add-flow "dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,actions=flood"
  try add-flow "dl_vlan=5,dl_vlan_pcp=3,actions=strip_vlan,output:2"
  try add-flow "vlan_tci=0x0000,arp,arp_op=1,arp_spa=10.0.0.1,arp_tpa=10.0.0.0/24,actions=normal"
  try add-flow "ip,nw_src=10.0.0.0/8,nw_dst=192.168.1.1,nw_tos=32,actions=all"
  try add-flow "priority=65535,tcp,nw_src=10.1.0.0/16,tp_src=1000,tp_dst=80,actions=drop"
  try add-flow "udp,tp_dst=53,check_overlap,actions=mod_vlan_vid:9,mod_vlan_pcp:2,mod_dl_src:02:00:00:00:00:0a,mod_dl_dst:02:00:00:00:00:0b,output:2"
  try add-flow "priority=9,udp,tp_src=67,actions=mod_nw_src:1.2.3.4,mod_nw_dst:5.6.7.8,mod_nw_tos:64,mod_tp_src:68,mod_tp_dst:69,in_port"
  try add-flow "icmp,icmp_type=8,icmp_code=0,actions=local"
  try add-flow "in_port=3,actions=enqueue:3:7"
  try add-flow "in_port=LOCAL,actions=set_queue:7,output:3"
  try add-flow "priority=3,actions=resubmit(,4)"
  try add-flow "table=4,reg0=7,tcp,tcp_flags=+syn-ack,actions=learn(table=5,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])"
  try add-flow "table=4,ct_state=+trk+new,tcp,actions=ct(commit,zone=7),output:1"

  if [ "$version" != OpenFlow10 ]; then
    try add-group "group_id=1,type=all,bucket=output:1,bucket=dec_ttl,output:2"
    try add-group "group_id=2,type=select,bucket=weight:10,output:1,bucket=weight:20,set_field:10.0.0.9->ip_dst,output:2"
    try add-group "group_id=3,type=indirect,bucket=output:3"
    try add-group "group_id=4,type=ff,bucket=watch_port:1,output:1,bucket=watch_port:2,watch_group:1,output:2"
    try add-group "group_id=4,type=ff,bucket=watch_port:1,output:1"
    try mod-group "group_id=3,type=indirect,bucket=output:2"
    try add-meter "meter=1,kbps,band=type=drop,rate=1000"
    try add-meter "meter=2,pktps,burst,stats,bands=type=drop,rate=500,burst_size=50"
    try add-meter "meter=3,kbps,bands=type=dscp_remark,rate=100,prec_level=1,type=drop,rate=200"
    try mod-meter "meter=1,kbps,band=type=drop,rate=2000"
    try add-flow "table=1,in_port=1,actions=meter:1,push_vlan:0x8100,set_field:4101->vlan_vid,set_field:5->vlan_pcp,group:1,goto_table:2"
    try add-flow "table=1,in_port=2,actions=write_actions(set_field:02:00:00:00:00:0c->eth_dst,dec_ttl,group:2),write_metadata:0x1200/0xff00,goto_table:3"
    try add-flow "table=1,priority=1,actions=output:1,clear_actions"
    try add-flow "table=2,metadata=0x1200/0xff00,tun_id=0x2a/0xff,actions=push_mpls:0x8847,set_field:100->mpls_label,set_mpls_ttl(9),dec_mpls_ttl,output:3"
    try add-flow "table=2,mpls,mpls_label=100,mpls_tc=1,mpls_bos=1,actions=pop_mpls:0x0800,dec_ttl,output:1"
    try add-flow "table=2,vlan_vid=0x1005/0x1105,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=pop_vlan,controller"
    try add-flow "table=2,ipv6,ipv6_src=fe80::/64,ipv6_dst=2001:db8::1,ipv6_label=0x12345,ip_ecn=1,ip_dscp=10,actions=set_field:2001:db8::2->ipv6_src,mod_nw_ttl:63,output:1"
    try add-flow "table=2,icmp6,icmp_type=135,icmp_code=0,nd_target=fe80::1,nd_sll=02:00:00:00:00:01,actions=output:2"
    try add-flow "table=2,icmp6,icmp_type=136,icmp_code=0,nd_target=fe80::2,nd_tll=02:00:00:00:00:02,actions=output:2"
    try add-flow "table=2,sctp,sctp_src=1,sctp_dst=2/0xfff2,actions=set_field:3->sctp_src,output:2"
    try add-flow "table=2,arp,arp_sha=02:00:00:00:00:01,arp_tha=00:00:00:00:00:00,arp_op=2,actions=set_field:1.1.1.1->arp_spa,set_field:02:00:00:00:00:04->arp_sha,output:2"
    try add-flow "table=2,tcp,tcp_dst=8080,reset_counts,no_packet_counts,no_byte_counts,actions=set_field:80->tcp_dst,set_queue:7,output:3"
    try add-flow "table=2,udp,udp_src=5000,actions=set_field:5001->udp_src,set_field:0x2a->tun_id,output:3"
    try add-flow "table=2,actions=set_field:0x1/0x1->reg0,move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]"
    try add-flow "table=2,ipv6,ipv6_label=0x12300/0xfff00,actions=drop"
    try add-flow "table=2,arp,arp_sha=02:00:00:00:00:00/ff:00:00:00:00:00,arp_tha=00:00:00:00:00:00/00:00:00:00:00:01,actions=drop"
    for command in dump-group-features dump-groups dump-group-stats dump-meters meter-stats meter-features \
      dump-table-features dump-ports-desc; do
      try "$command"
    done
    try dump-group-stats group_id=1
    try dump-meters meter=1
    try meter-stats meter=1
  fi
  later

  # Packets, then the statistics that they change.
  for port in 1 2 3; do try packet-out "$port" table "$packet"; done
  try packet-out CONTROLLER output:2 "$packet"
  try packet-out 3 mod_dl_dst:02:00:00:00:00:0b,output:1,output:2 "$packet"
  # In 1.0, ovs-ofctl prefers its own extension to the flow statistics of the specification.
  if [ "$version" = OpenFlow10 ]; then
    try --flow-format=OpenFlow10 dump-flows
    try --flow-format=OpenFlow10 dump-flows "in_port=1"
    try --flow-format=OpenFlow10 dump-aggregate
    try --flow-format=OpenFlow10 dump-aggregate "udp"
  fi
  try dump-flows
  try dump-flows "table=0,out_port=1"
  try dump-aggregate
  try dump-aggregate "table=0,in_port=1"
  try dump-ports
  try dump-ports 1
  try queue-stats
  try queue-stats 3 7
  try queue-get-config 3
  try queue-get-config ANY
  try mod-flows "in_port=1,actions=output:2"
  try --strict mod-flows "priority=7,in_port=2,cookie=0xc00c1f,actions=output:1"
  try del-flows "cookie=0xc00c1f/-1"
  try --strict del-flows "priority=7,in_port=2"
  try del-flows "udp"
  try add-flow "dl_vlan=77,idle_timeout=1,send_flow_rem,actions=drop"
  try add-flow "dl_vlan=78,hard_timeout=1,send_flow_rem,actions=drop"
  try add-flow "priority=1,in_port=77,actions=output:0xfff0" # an invalid port
  try probe
  try ping 17
  # Ports go down and up, and are removed and added.
  ip link set h1 down
  sleep 0.2
  ip link set h1 up
  vsctl del-port br0 p2
  vsctl add-port br0 p2 -- set interface p2 ofport_request=2
  sleep 2.5
  watched
  if [ "$version" != OpenFlow10 ]; then
    try del-groups group_id=1
    try del-groups
    try del-meters meter=1
    try del-meters
  fi
  try del-flows
  # Kinds without a command in ovs-ofctl (role, asynchronous configuration, unknown kinds) are sent
  # as raw bytes.
  raw "$version"
  kill "$monitor" 2>/dev/null || cat monitor.log
  wait "$monitor" 2>/dev/null || true
}

# Commands that need OpenFlow 1.4 or 1.5.
later() {
  [[ $version > OpenFlow13 ]] || return 0
  try mod-table 6 evict
  try mod-table 6 noevict
  try mod-table 7 vacancy:20,80
  try dump-table-desc
  try add-flow "table=6,priority=8,importance=7,hard_timeout=600,actions=output:1"
  printf '%s\n' "table=6,priority=1,actions=output:2" "delete table=6,in_port=9" >flows
  try --bundle add-flows flows
  try dump-ports-desc 1
  try dump-groups 2
  try insert-buckets "group_id=2,command_bucket_id=last,bucket=bucket_id:9,weight:30,output:3"
  try insert-buckets "group_id=2,command_bucket_id=first,bucket=bucket_id:8,weight:40,output:1"
  try remove-buckets "group_id=2,command_bucket_id=9"
  try dump-groups
  try add-flow "table=6,priority=2,ip,actions=move:NXM_OF_IP_SRC[]->NXM_OF_IP_DST[],set_field:10.1.0.0/16->ip_dst,output:2"
  try add-flow "table=6,priority=3,packet_type=(1,0x800),actions=output:2"
  try add-flow "table=6,priority=4,tcp,tcp_flags=0x012/0x012,actions=output:2"
  try add-flow "table=6,priority=5,actset_output=2,actions=output:2"
  ovs-ofctl -O "$version" monitor tcp:127.0.0.1:6653 watch: >watch.log 2>&1 &
  local watch=$!
  sleep 0.5
  try add-flow "table=6,priority=6,udp,udp_dst=99,actions=output:2"
  try mod-flows "table=6,udp,udp_dst=99,actions=output:1"
  try del-flows "table=6,udp,udp_dst=99"
  sleep 0.2
  kill "$watch" 2>/dev/null || cat watch.log
  wait "$watch" 2>/dev/null || true
}

# Lets a connection receive what only OpenFlow 1.4 and later report: forwarded requests, the status of a table, and at last
# that it is no longer the master. Generation ids grow with the version: the switch rejects an older one.
watched() {
  [[ $version > OpenFlow13 ]] || return 0
  vsctl -- --id=@limit create flow_table flow_limit=10 -- set bridge br0 flow_tables:7=@limit >limit.log
  exec 8<>/dev/tcp/127.0.0.1/6653
  send 8 "00 0010 00000001 0001 0008 00000072
    18 0018 00000002 00000002 00000000 80000000000000${version: -1}1
    1c 0040 00000003 0001 0008 00000000 0003 0008 00000007 0005 0008 0000000f 0006 0008 00000007
      0007 0008 00000007 0009 0008 00000018 000b 0008 00000003
    1a 0008 00000004"
  sleep 0.5
  try mod-table 7 vacancy:20,80
  for number in 1 2 3 4 5 6 7 8 9; do try add-flow "table=7,priority=$number,actions=drop"; done
  try del-flows table=7
  try add-group "group_id=9,type=all,bucket=output:1"
  try add-meter "meter=9,kbps,band=type=drop,rate=1000"
  exec 9<>/dev/tcp/127.0.0.1/6653
  send 9 "00 0010 00000001 0001 0008 00000072
    18 0018 00000002 00000002 00000000 80000000000000${version: -1}2"
  sleep 0.5
  exec 8>&- 9>&-
}

# Sends messages of the version, each from its type on, written in hexadecimal digits: of DESCRIPTOR MESSAGES. A message
# begins with two digits, its type, and a blank; its other lines begin with more digits.
send() {
  local bytes
  bytes=$(awk -v version="0$((${version#OpenFlow1} + 1))" '{ if ($1 ~ /^..$/) printf version; gsub(/ /, ""); printf $0 }' <<<"$2")
  # shellcheck disable=SC2059 # the bytes are the format
  printf "$(sed 's/../\\x&/g' <<<"$bytes")" >&"$1"
}

# Sends the kinds that ovs-ofctl has no command for and gives the switch half a second to answer.
raw() {
  local messages
  case $1 in
    OpenFlow10) messages="00 0008 00000001
      12 0008 00000002
      10 0010 00000003 ffff0000 00002320
      04 0010 00000004 00002320 000000ff
      02 0010 00000005 01020304 05060708" ;;
    OpenFlow11) messages="00 0008 00000001
      14 0008 00000002
      16 0010 00000003 00000003 00000000
      12 0018 00000004 ffff0000 00000000 0026e1ff 00000001
      04 0010 00000005 00002320 000000ff
      02 0010 00000006 01020304 05060708" ;;
    OpenFlow12) messages="00 0008 00000001
      14 0008 00000002
      16 0010 00000003 00000003 00000000
      18 0018 00000004 00000000 00000000 0000000000000000
      18 0018 00000005 00000002 00000000 8000000000000001
      11 0010 00000006 01000000 00000000
      12 0018 00000007 ffff0000 00000000 0026e1ff 00000001
      04 0010 00000008 00002320 000000ff" ;;
    OpenFlow13) messages="00 0010 00000001 00010008 00000010
      18 0018 00000002 00000000 00000000 0000000000000000
      18 0018 00000003 00000002 00000000 8000000000000001
      1a 0008 00000004
      1c 0020 00000005 00000003 00000003 00000007 00000003 00000007 00000000
      1a 0008 00000006
      11 0010 00000003 01000000 00000000
      14 0008 00000007
      12 0018 00000008 ffff0000 00000000 0026e1ff 00000001
      04 0010 00000009 00002320 000000ff" ;;
    *) messages="00 0010 00000001 00010008 00000072
      18 0018 00000002 00000000 00000000 0000000000000000
      18 0018 00000003 00000002 00000000 80000000000000${1: -1}3
      1a 0008 00000004
      1c 0028 00000005 0000 0008 00000003 0001 0008 00000007 0004 0008 0000000f 0006 0008 00000007
      1a 0008 00000006
      14 0008 00000007
      21 0010 00000008 00000012 0000 0003
      21 0010 00000009 00000012 0002 0003
      21 0010 0000000a 00000013 0000 0003
      21 0010 0000000b 00000013 0006 0003
      12 0018 0000000c ffff0000 00000000 0026e1ff 00000001
      04 0010 0000000d 00002320 000000ff" ;;
  esac
  exec 9<>/dev/tcp/127.0.0.1/6653
  send 9 "$messages"
  sleep 0.5
  exec 9>&-
}

# Splits the streams of a capture into messages, in the order of arrival.
messages_of() {
  tshark -r "$1" -Y 'tcp.len > 0 and not tcp.analysis.retransmission' -T fields -e tcp.stream -e tcp.srcport -e tcp.payload 2>/dev/null |
    awk -F'\t' '
      function digit(c) { return index("0123456789abcdef", c) - 1 }
      {
        stream = $1 "/" $2
        held[stream] = held[stream] $3
        while (length(held[stream]) >= 16) {
          bytes = held[stream]
          size = 0
          for (i = 5; i <= 8; i++) size = 16 * size + digit(substr(bytes, i, 1))
          if (size < 8 || length(bytes) < 2 * size) break
          message = substr(bytes, 1, 2 * size)
          held[stream] = substr(bytes, 2 * size + 1)
          kind = substr(message, 3, 2)
          key = substr(message, 1, 8) substr(message, 17)
          if (kind == "02" || kind == "03") key = substr(message, 1, 8) # an echo of one size
          if (length(message) > 8000) key = substr(message, 1, 4) substr(message, 17, 4)
          if (!seen[key]++) print message
        }
      }'
}

write() {
  local name=$1 version=$2 byte=$3 message
  vsctl set bridge br0 "protocols=OpenFlow10,OpenFlow13,$version"
  tcpdump -i lo -s 0 -B 65536 -U -w "$name.pcap" tcp port 6653 2>tcpdump.log &
  local tcpdump=$!
  sleep 1
  session "$version"
  sleep 0.5
  kill "$tcpdump"
  wait "$tcpdump" || true
  grep -q '^0 packets dropped by kernel' tcpdump.log || { cat tcpdump.log >&2; exit 1; }
  {
    echo "# Messages between ovs-ofctl and ovs-vswitchd, made by make.sh with"
    ovs-vswitchd --version | sed 's/^/#   /'
    tshark --version 2>/dev/null | sed -n '1s/^/#   /p'
    echo "# Each is followed by the output of \"ovs-ofctl ofp-print\"."
    messages_of "$name.pcap" | while read -r message; do
      [ "${message:0:2}" = "$byte" ] || [ "${message:2:2}" = 00 ] || continue
      echo
      echo "$message"
      ovs-ofctl --verbose=off ofp-print "$message" 2>&1 | sed -e '/^$/d' -e 's/^/# /' -e 's/[[:space:]]*$//'
    done
  } >"$here/$name.hex"
}

[ $# -gt 0 ] || set -- of10 of11 of12 of13 of14 of15
for name; do
  number=${name#of1}
  write "$name" "OpenFlow1$number" "0$((number + 1))"
  chown --reference="$here/make.sh" "$here/$name.hex"
done
