#!/usr/bin/env bash
# A real S3 server on this machine alone, of Debian's packages: Ceph's radosgw over one monitor and one OSD that keeps
# everything in memory.
#
#     s3_server.sh DIRECTORY PORT MONITOR_PORT [TLS_PORT]
#
# Prints "ready" once it serves on 127.0.0.1:PORT, and on TLS_PORT with a certificate for localhost that DIRECTORY/ca.pem
# signed, where openssl is; and ends with all that it started when its input ends. The key is
# AKIATEST, its secret test/secret+with/slashes=.
set -euo pipefail
directory=$1 port=$2 monitor_port=$3 tls_port=${4:-}
export LC_ALL=C CEPH_CONF=$directory/ceph.conf
mkdir -p "$directory/mon" "$directory/osd"
cd "$directory"
processes=()
trap 'kill -9 "${processes[@]}" 2>/dev/null || true' EXIT

tls=
if [ -n "$tls_port" ] && command -v openssl >/dev/null; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=test CA" \
        -keyout ca.key -out ca.pem >openssl.out 2>&1
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=localhost" \
        -keyout server.key -out server.csr >>openssl.out 2>&1
    openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out server.crt \
        -extfile <(echo "subjectAltName=DNS:localhost,DNS:*.localhost") >>openssl.out 2>&1
    cat server.crt server.key >server.pem
    tls="ssl_endpoint=127.0.0.1:$tls_port ssl_certificate=$directory/server.pem"
fi
cat >ceph.conf <<EOF
[global]
fsid = 11111111-2222-3333-4444-555555555555
mon_initial_members = a
mon_host = v2:127.0.0.1:$monitor_port
public_network = 127.0.0.0/8
cluster_network = 127.0.0.0/8
keyring = $directory/keyring
ms_bind_ipv6 = false
run_dir = $directory
crash_dir = $directory
admin_socket = $directory/\$name.asok
pid_file = $directory/\$name.pid
log_file = $directory/\$name.log
mon_cluster_log_file = $directory/cluster.log
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
paxos_propose_interval = 0.05
paxos_min_wait = 0.01
[mon.a]
mon_data = $directory/mon
mon_data_avail_crit = 1
mon_data_avail_warn = 1
[osd.0]
osd_objectstore = memstore
memstore_device_bytes = 4294967296
osd_data = $directory/osd
[client.rgw]
rgw_frontends = beast endpoint=127.0.0.1:$port $tls
rgw_thread_pool_size = 16
rgw_dns_name = localhost
rgw_crypt_require_ssl = false
rgw_crypt_s3_kms_backend = testing
rgw_crypt_s3_kms_encryption_keys = checkpoints=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=
rgw_enable_gc_threads = false
rgw_enable_lc_threads = false
rgw_run_sync_thread = false
rgw_dynamic_resharding = false
EOF

keys() { ceph-authtool "$@" >/dev/null; }
keys --create-keyring keyring --gen-key -n mon. --cap mon 'allow *'
keys keyring --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *'
keys keyring --gen-key -n client.rgw --cap mon 'allow *' --cap osd 'allow *'
keys keyring --gen-key -n osd.0 --cap mon 'allow *' --cap osd 'allow *'
monmaptool --create --fsid 11111111-2222-3333-4444-555555555555 --addv a "[v2:127.0.0.1:$monitor_port]" monmap >/dev/null
ceph-mon -i a --mkfs --monmap monmap --keyring keyring >mkfs.out 2>&1
ceph-mon -i a -f </dev/null >mon.out 2>&1 &
processes+=($!)
osd=22222222-2222-3333-4444-555555555555
timeout 60 ceph osd new "$osd" >/dev/null
ceph-osd -i 0 --mkfs --osd-uuid "$osd" >mkfs.osd.out 2>&1
ceph-osd -i 0 -f </dev/null >osd.out 2>&1 &
processes+=($!)
for _ in $(seq 300); do
    timeout 10 ceph osd stat 2>/dev/null | grep -q "1 up" && break
    sleep 0.1
done
timeout 90 radosgw-admin -n client.rgw user create --uid=test --display-name=test --access-key=AKIATEST \
    --secret-key=test/secret+with/slashes= >user.out 2>&1
radosgw -f -n client.rgw </dev/null >rgw.out 2>&1 &
processes+=($!)
for _ in $(seq 300); do
    (: </dev/tcp/127.0.0.1/"$port") 2>/dev/null && break
    sleep 0.1
done
(: </dev/tcp/127.0.0.1/"$port") # or this ends with what it printed
echo ready
cat >/dev/null
