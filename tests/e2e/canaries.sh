#!/bin/bash
# Thirty canaries, in every way into a job. Nobody else finds one: in files, names, sockets, packets or /proc, while the job
# runs over two agents, crashes, is restarted, hangs and is reported; and its own user finds them in what is his alone.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root, to look as another user"
setpriv --reuid 65534 --regid 65534 --clear-groups true 2>/dev/null || skip "needs another user to look as"
for_all_users
chmod 755 "$work" # that others look into it
tests=$AUTOLAUNCH_SOURCE_DIR/tests/e2e
install -m 755 "$tests/canaries.py" "$work/look.py" # the tree may be closed to another user
export HOME=$work PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 AUTOLAUNCH_MUNGE_SOCKET=$work/none
python=/usr/bin/python3
unset "${!VAULT_@}" SLURM_JWT
CANARY_MARK=$(printf 'x7%05d' $RANDOM) && export CANARY_MARK # of this run: a stranger's file may have those of another
canary() { printf 'kan%s-%02d-%s' ari "$1" "$CANARY_MARK"; } # in two parts: this script is read by the search, too
private() { (umask 077 && cat >"$1"); }
umask 022

# ---- planted ---------------------------------------------------------------------------------------------------------
export ALERT_WEBHOOK="https://hooks.slack.com/services/T00000000/B00000000/$(canary 16)" SOME_TOKEN=$(canary 1) DATABASE_URL="pg://me:$(canary 2)@db/x" AWS_SECRET_ACCESS_KEY=$(canary 3) DB_PASSWORD=$(canary 4)
export AUTOLAUNCH_JOB_KEY="a key of a job: $(canary 5)" SLURM_JWT=$(canary 6) NODES_TOKEN=$(canary 7) OF_A_FILE=$(canary 8)
canary 9 | private of-a-file
canary 10 | private of-a-key
canary 11 | private of-a-command
canary 12 | private .vault-token
export NCCL_CONF_FILE=$work/nccl.conf
echo "NCCL_AUTH_TOKEN=$(canary 13)" | private nccl.conf
printf '{set: {NCCL_AUTH_TOKEN: "%s"}}\n' "$(canary 14)" | private profile.yaml
private included.yaml <<END
trainer: {env: {INCLUDED_PASSWORD: "$(canary 15)"}}
alerting: {channels: [{type: slack, webhook_url: "\${ALERT_WEBHOOK}"}]}
END
private job.yaml <<END
include: included.yaml
trainer:
  command: [$python, $work/look.py, rank]
  env: {API_KEY: "$(canary 17)", URL: "pg/\${DB_PASSWORD}"}
  config: {hub_token: "$(canary 18)"}
secrets:
  OF_A_FILE: {file: of-a-file}
  OF_A_KEY: {file: of-a-key, as: file}
  OF_A_COMMAND: {command: [cat, $work/of-a-command]}
  OF_VAULT: {vault: "kv/team/api#key", ranks: 1}
restart: {max_restarts: 1, hang_after: 1s, on: {program_error: {delay: 0s}}}
END
private wrong.yaml <<END
include: included.yaml
resource_management: {nodes: "\${NODES_TOKEN}", gpus_per_node: "\${DB_PASSWORD}"}
trainer: {env: {API_KEY: {a: "$(canary 19)"}}, command: [x, --api-key, "$(canary 20)"], wrap: {first: "env X_TOKEN=$(canary 21) y"}}
secrets: {PLAIN: "$(canary 22)", OTHER: {file: of-a-file, as: "$(canary 23)"}}
END
private argument.yaml <<END
trainer: {command: [train, --api-key, "$(canary 24)"], wrap: {all: "env X_TOKEN=$(canary 25) y"}}
END
private job.sh <<END
#SBATCH --nodes=2 --comment=token=$(canary 26)
export HF_TOKEN=$(canary 27)
srun mpirun -np 4 train --api-key=$(canary 28)
END
FAKE_VAULT_TOKEN=$(canary 12) FAKE_VAULT_VALUE=$(canary 29) "$python" "$tests/fake_vault.py" "$work/port" /dev/null >/dev/null 2>&1 &
helpers=($!)
trap 'kill "${helpers[@]}" 2>/dev/null; cleanup' EXIT
eventually "the server's port" test -s port
VAULT_PORT=$(cat port)
export VAULT_PORT VAULT_ADDR=http://127.0.0.1:$VAULT_PORT
printf 'password=%s\n' "$(canary 30)" | private typed

# ---- what the user is shown --------------------------------------------------------------------------------------------
shown() { # NAME COMMAND...: its words hold none
    "${@:2}" >"shown-$1" 2>&1 </dev/null
    [ -s "shown-$1" ] || failed "$1 says nothing"
    grep -n "kan""ari" "shown-$1" && failed "$1 shows a canary"
}
shown plan "$AUTOLAUNCH" plan -c job.yaml -n 2
shown plan_json "$AUTOLAUNCH" plan --json -c job.yaml -n 2 "trainer.env.TYPED_SECRET=$(canary 24)"
shown validate "$AUTOLAUNCH" validate wrong.yaml "trainer.env.TYPED_SECRET.x=$(canary 24)" "trainer.env={B_TOKEN: {x: $(canary 25)}}"
shown validate_json "$AUTOLAUNCH" validate --json wrong.yaml
shown argument "$AUTOLAUNCH" plan -c argument.yaml
contains "what an argument tells everybody" shown-argument 'every user of the node'
shown submit "$AUTOLAUNCH" submit -c job.yaml --dry-run --json
shown submit_argument "$AUTOLAUNCH" submit -c argument.yaml --dry-run
shown submit_wrong "$AUTOLAUNCH" submit -c wrong.yaml --dry-run "trainer.env.TYPED_SECRET=$(canary 24)"
shown submit_typed "$AUTOLAUNCH" submit -c job.yaml --dry-run -- train --api-key "$(canary 24)"
shown profile "$AUTOLAUNCH" plan -n 2 -c job.yaml "nccl.profile=$work/profile.yaml"
shown lint "$AUTOLAUNCH" lint --json job.sh
shown lint_spec "$AUTOLAUNCH" lint job.yaml wrong.yaml
shown command "$AUTOLAUNCH" -c job.yaml "secrets.OF_A_COMMAND.command=[sh, -c, 'cat of-a-command of-a-command >&2; cat of-a-command; exit 1']" -n 2 --log-dir runs/refused

# ---- a job ---------------------------------------------------------------------------------------------------------------
: >listened
"$python" look.py listen "$work/over" >listened 2>&1 &
helpers+=($!)
eventually "a look at the loopback" test -s listened
for node in 0 1; do
    "$AUTOLAUNCH" --nnodes 2 --node-rank $node -n 1 --rdzv-endpoint 127.0.0.1 -x "EXPORTED_TOKEN=$(canary 26)" -c job.yaml --rdzv-id "$E2E_MARK" --log-dir "$work/runs/job" \
        "trainer.env.TYPED_SECRET=$(canary 27)" <typed >"screen-$node" 2>&1 &
    agents[node]=$!
done
eventually "both ranks" test -s here-0-1 -a -s here-0-0
expect "bytes of secrets and of stdin that ranks have" "51 27|68 0" "$(cat here-0-0)|$(cat here-0-1)"
# By another user: what runs, and all that is in places for everybody.
setpriv --reuid 65534 --regid 65534 --clear-groups env -i CANARY_MARK="$CANARY_MARK" JOB_UID=0 "$python" "$work/look.py" look "$work" /tmp /dev/shm /run/user >by-another 2>/dev/null
expect "what another user finds while the job runs" "" "$(cat by-another)"
"$python" look.py look /nowhere >by-root 2>&1
[ -s by-root ] || failed "the search finds nothing as root either: it does not search"
mkdir encoded
"$python" - "$(canary 1)" <<'END'
import base64, pathlib, sys
word, folder = sys.argv[1].encode(), pathlib.Path("encoded")
forms = [word.hex(), word.hex().upper(), word[::-1].decode(), *(base64.b64encode(b"xy"[:n] + word).decode() for n in range(3))]
for number, form in enumerate(forms):
    (folder / str(number)).write_text(form)
(folder / "utf-16").write_bytes(word.decode().encode("utf-16-le"))
END
expect "forms of a canary that the search knows" 7 "$("$python" look.py look encoded | grep -c '^encoded .* encoded/')"
rm -r encoded
touch go
for node in 0 1; do wait "${agents[node]}" && failed "a job that hung ended well"; done
touch over
eventually "the end of the look at the loopback" grep -q 'packets\|not tried' listened
grep -v '^listening$\|^packets [1-9]\|^not tried' listened && failed "the loopback has seen a canary"
grep '^not tried' listened
contains "the crash" screen-0 'no answer with'
contains "the hang" screen-0 'cause: hang'
shown report "$AUTOLAUNCH" report runs/job
shown report_json "$AUTOLAUNCH" report --json runs/job
setpriv --reuid 65534 --regid 65534 --clear-groups env -i CANARY_MARK="$CANARY_MARK" JOB_UID=0 "$python" "$work/look.py" look "$work" /tmp /dev/shm >by-another 2>/dev/null
expect "what another user finds after the job" "" "$(cat by-another)"
# Its own user: in what his ranks printed, and in what is the trainer's to read; in nothing else that autolaunch wrote.
grep -rlE "kan""ari" runs screen-* | grep -vE '^runs/(job/generation-[01]/rank-[01]/(stdout|stderr|error.json)|(job|refused)/trainer_config.json)$' &&
    failed "a canary is in what autolaunch writes"
grep -rqE "kan""ari" runs || failed "the ranks' own logs have none: they have not printed any"
nothing_left
count_failures
