#!/bin/bash
# The spec's secrets: from files, commands and Vault, as variables and as files in memory, for the ranks that get them and no
# other; anew in each generation; and what is wrong with one is said before a rank starts.
. "$(dirname "$0")/lib.sh"
umask 022
tests=$AUTOLAUNCH_SOURCE_DIR/tests/e2e
unset "${!VAULT_@}"
export HOME=$work
# secret FILE TEXT: a file as it should be
secret() { rm -f "$1" && (umask 077 && printf %s "$2" >"$1"); }
secret token $'canary-of-a-file\n'
secret key $'-----BEGIN KEY-----\nfirst-line-of-key\n-----END KEY-----\n'
secret of-a-command $'canary-of-a-command\n'
echo 'env >env-$RANK' >rank.sh
spec() { # NAME LINE...: of secrets, for two ranks that write down what they have
    local name=$1
    shift
    printf '%s\n' 'trainer: {command: [/bin/sh, rank.sh]}' 'resource_management: {ranks_per_node: 2}' 'logging: {quiet: true}' \
        'secrets:' "${@/#/  }" >"$name.yaml"
}
run() { # NAME OPTION...: one that ends well
    "$AUTOLAUNCH" -c "$1.yaml" --log-dir "runs/$1" "${@:2}" >"$1.log" 2>&1 </dev/null || failed "$1 ended with $?: $(cat "$1.log")"
}
has() { grep -qx -- "$2" "env-$1" || failed "rank $1 has no $2: $(grep -o '^[A-Z_]*' "env-$1" | paste -sd' ')"; } # RANK LINE
has_not() { ! grep -q -- "^$2=" "env-$1" || failed "rank $1 has $2"; }                                            # RANK NAME
nowhere() { ! grep -rlF -- "$2" "runs/$1" "$1.log" || failed "$1: $2 is there"; }                                 # NAME TEXT

# ---- who gets what, and how -----------------------------------------------------------------------------------------
spec ways 'FROM_FILE: {file: ~/token}' 'FROM_COMMAND: {command: [sh, -c, "cat of-a-command; echo \"$HOME\" >&2"], ranks: 1}' \
    'KEY: {file: "${HOME}/key", as: file, ranks: "0"}' 'LINES: {file: key}' 'INHERITED: {file: token, ranks: 0}'
cat >ways.sh <<'END'
env >env-$RANK
[ -z "$KEY_FILE" ] || { stat -Lc %a:%u "$KEY_FILE" && cat "$KEY_FILE" && stat -f -c %T "$KEY_FILE" && stat -c %a "${KEY_FILE%/*}"; } >key-seen
END
INHERITED=of-the-environment run ways -- /bin/sh ways.sh
for rank in 0 1; do has $rank FROM_FILE=canary-of-a-file && has $rank LINES='-----BEGIN KEY-----'; done
has 1 FROM_COMMAND=canary-of-a-command
has_not 0 FROM_COMMAND
has 0 INHERITED=canary-of-a-file
has_not 1 INHERITED
has_not 1 KEY_FILE
has_not 0 KEY
expect "the file of a secret" "600:$(id -u)"$'\n'"$(cat key)"$'\ntmpfs\n700' "$(cat key-seen)"
[ ! -e "$(sed -n 's/^KEY_FILE=//p' env-0)" ] || failed "the file outlives the job"
for text in canary-of first-line-of of-the-environment; do nowhere ways "$text"; done

# ---- plan, validate, and what is no secret ----------------------------------------------------------------------------
INHERITED=x "$AUTOLAUNCH" plan -c ways.yaml >plan.log || failed "plan: $(cat plan.log)"
grep -qE '^  FROM_COMMAND +a variable +ranks 1 +command sh -c cat of-a-command' plan.log || failed "the plan: $(cat plan.log)"
grep -qE "^  KEY +a file that KEY_FILE names +ranks 0 +file $work/key" plan.log || failed "the plan: $(cat plan.log)"
contains "the plan" plan.log 'INHERITED is in your environment, too: ranks get it as secrets.INHERITED says'
"$AUTOLAUNCH" plan --json -c ways.yaml >out.log && json 'd["ranks"][0]["secrets"] == ["FROM_FILE", "KEY", "LINES", "INHERITED"]'
json '{"name": "KEY", "as": "file", "from": "file '"$work"'/key", "for": "ranks 0"} in d["secrets"]'
wrong() { # TEXT LINE...: what validate and a start say of it
    spec wrong "${@:2}"
    says 65 "$1" "$AUTOLAUNCH" validate wrong.yaml
}
wrong 'wrong.yaml:5:10: secrets.TOKEN: expected where it comes from: {file: PATH}' 'TOKEN: hf_"not"a_real_one123'
grep -q hf_ <("$AUTOLAUNCH" validate wrong.yaml 2>&1) && failed "a secret in the spec is quoted"
wrong 'wrong.yaml:5:3: secrets.2nd: is no name of a variable' '2nd: {file: token}'
wrong 'wrong.yaml:5:3: secrets.AUTOLAUNCH_X: is a name that autolaunch has for itself' 'AUTOLAUNCH_X: {file: token}'
wrong 'wrong.yaml:5:6: secrets.T: has file and command' 'T: {file: token, command: [true]}'
wrong 'wrong.yaml:5:7: secrets.T.fill: unknown key; did you mean "file"?' 'T: {fill: token}'
wrong 'wrong.yaml:5:24: secrets.T.as: expected environment or file; found ***' 'T: {file: token, as: memory}'
wrong 'secrets.T.ranks: expected all, or ranks such as 0 or "0,3-5"' 'T: {file: token, ranks: first}'
wrong 'secrets.T.vault: expected a path and a key, such as "kv/team/hub#token"' 'T: {vault: kv/team/api}'
wrong 'secrets.T.vault: expected a path' 'T: {vault: "kv/../sys#key"}'
spec wrong 'T: {file: token}' && sed -i 's/^trainer: {/&env: {T: x}, /' wrong.yaml
says 65 'secrets.T: trainer.env.T sets the same variable' "$AUTOLAUNCH" validate wrong.yaml
start_refuses() { # CODE TEXT LINE...: before any rank, and with nothing of the canaries
    local code=$1 text=$2
    shift 2
    spec refused "$@" && rm -rf runs/refused env-*
    says "$code" "$text" "$AUTOLAUNCH" -c refused.yaml --log-dir runs/refused
    [ ! -e env-0 ] || failed "a rank was started although: $text"
}
start_refuses 65 'it is for ranks 5, but there are ranks 0 to 1' 'T: {file: token, ranks: 5}'
start_refuses 65 'no program of this job has the role reader' 'T: {file: token, programs: [reader]}'
start_refuses 65 'secrets.RANK: autolaunch sets this variable' 'RANK: {file: token}'
"$AUTOLAUNCH" -c <(spec roles 'T: {file: token, programs: [reader]}'; cat roles.yaml) --log-dir runs/roles -n 1 --role reader sh -c 'env >env-$RANK' : \
    -n 1 --role writer sh -c 'env >env-$RANK' >roles.log 2>&1 || failed "programs: $(cat roles.log)"
has 0 T=canary-of-a-file && has_not 1 T

# ---- files ------------------------------------------------------------------------------------------------------------
start_refuses 66 "secrets.T: nowhere cannot be read: No such file" 'T: {file: nowhere}'
cp token open && chmod 644 open && start_refuses 77 'open may be read by everybody (mode 0644)' 'T: {file: open}'
says 77 'chmod 600 open' "$AUTOLAUNCH" -c refused.yaml --log-dir runs/refused
"$AUTOLAUNCH" plan -c refused.yaml | grep -qF '! secrets.T: open may be read by everybody (mode 0644); chmod 600 open' || failed "the plan does not warn"
chmod 620 open && start_refuses 77 'open may be written by its group (mode 0620)' 'T: {file: open}'
chmod 640 open && spec group 'T: {file: open}' && run group && has 0 T=canary-of-a-file
: >empty && chmod 600 empty && start_refuses 65 'empty is empty' 'T: {file: empty}'
printf '\r\n\n' >empty && start_refuses 65 'empty is empty' 'T: {file: empty}'
start_refuses 77 "$work is a folder" "T: {file: $work}"
mkfifo -m 600 pipe && start_refuses 77 'pipe is a pipe, and no regular file' 'T: {file: pipe}'
start_refuses 77 '/dev/null is a device' 'T: {file: /dev/null}'
ln -s token link && ln -s "$work/link" links && spec link 'T: {file: links}' && run link && has 0 T=canary-of-a-file
ln -s round round && start_refuses 66 'round cannot be read: Too many levels' 'T: {file: round}'
secret zero x && printf 'a\0bcdefgh' >zero && start_refuses 65 'it has a NUL, which no variable can hold' 'T: {file: zero}'
head -c 200000 /dev/zero | tr '\0' y >zero && start_refuses 65 'it has 200000 bytes, and the kernel takes variables of 128 KiB' 'T: {file: zero}'
head -c $((1 << 20)) /dev/urandom >zero && spec large 'T: {file: zero, as: file}' &&
    run large -- /bin/sh -c 'cmp "$T_FILE" zero'
echo >>zero && start_refuses 65 'zero has more than 1 MiB' 'T: {file: zero, as: file}'
secret quotes $'it\'s "quoted" $HOME `id` \\n\n' && spec quotes 'T: {file: quotes}' && run quotes && has 0 'T=it.s "quoted" $HOME `id` .n'
if [ "$(id -u)" = 0 ]; then
    cp token theirs && chown 65534 theirs && chmod 600 theirs && start_refuses 77 'theirs belongs to another user (uid 65534)' 'T: {file: theirs}'
    ln -s token their-link && chown -h 65534 their-link && start_refuses 77 'their-link is a link of another user' 'T: {file: their-link}'
else
    echo "not tried: files of another user; that needs root"
fi

# ---- commands ----------------------------------------------------------------------------------------------------------
start_refuses 69 'secrets.T: nothing-like-this cannot be executed: No such file' 'T: {command: [nothing-like-this]}'
secret printed $'canary-printed\n'
start_refuses 69 'secrets.T: sh ended with exit code 3: no such entry ***' 'T: {command: [sh, -c, "cat printed; echo no such entry $(cat printed) >&2; exit 3"]}'
grep -rq canary-printed runs/refused && failed "what a command printed is recorded"
start_refuses 65 'secrets.T: true printed nothing' 'T: {command: ["true"]}'
start_refuses 69 'was ended by signal 9' 'T: {command: [sh, -c, "kill -9 $$"]}'
start_refuses 65 'prints more than 1 MiB' 'T: {command: [head, -c, 2000000, /dev/zero]}'
# It forks, and what it leaves behind holds its output open.
spec forks 'T: {command: [sh, -c, "sleep 60 & echo canary-of-a-fork"]}' && SECONDS=0 && run forks && has 0 T=canary-of-a-fork
[ "$SECONDS" -lt 20 ] || failed "a process that a command left was waited for"

# ---- Vault ---------------------------------------------------------------------------------------------------------------
python3 "$tests/fake_vault.py" "$work/port" "$work/vault.requests" >fake.log 2>&1 &
vault_server=$!
trap 'kill $vault_server; cleanup' EXIT
eventually "the server's port" test -s port
export VAULT_ADDR=http://127.0.0.1:$(cat port) http_proxy=http://127.0.0.1:1
secret .vault-token $'hvs.the-right-token\n'
spec vault 'A: {vault: "kv/team/api#key"}' 'B: {vault: "old/team/api#key"}' 'C: {vault: "hidden/team/api#key"}' 'D: {vault: "busy/team/api#text", as: file}'
run vault && for name in A B C; do has 0 $name=canary-vault-value; done
nowhere vault canary-vault-value
nowhere vault the-right-token
expect "requests for one secret, of two ranks" 1 "$(grep -c '/v1/kv/data/team/api' vault.requests)"
start_refuses 66 'secrets.T: Vault has kv/team/api, and no key other there' 'T: {vault: "kv/team/api#other"}'
start_refuses 66 "answers 404 for kv/team/nothing" 'T: {vault: "kv/team/nothing#key"}'
start_refuses 65 'what Vault has at kv/team/api#number is no text' 'T: {vault: "kv/team/api#number"}'
start_refuses 65 'what Vault has at kv/team/api#empty is empty' 'T: {vault: "kv/team/api#empty"}'
start_refuses 69 "answers 503 for sealed/team/api: it is sealed" 'T: {vault: "sealed/team/api#key"}'
start_refuses 69 "answers 307 for moved/team/api, a redirect, which is not followed" 'T: {vault: "moved/team/api#key"}'
start_refuses 69 "answers with more than 16 MiB" 'T: {vault: "huge/team/api#key"}'
start_refuses 69 "answers 200 for odd/team/api, and no secret is in it" 'T: {vault: "odd/team/api#key"}'
start_refuses 66 "answers 404 for lost/team/api" 'T: {vault: "lost/team/api#key"}'
VAULT_TOKEN=hvs.wrong start_refuses 77 "answers 403 for kv/team/api" 'T: {vault: "kv/team/api#key"}'
chmod 644 .vault-token && start_refuses 77 "$work/.vault-token may be read by everybody" 'T: {vault: "kv/team/api#key"}'
chmod 600 .vault-token
VAULT_ADDR=http://127.0.0.1.example:8200 start_refuses 65 "neither https nor this machine's own loopback" 'T: {vault: "kv/team/api#key"}'
VAULT_ADDR=http://127.0.0.1:1 start_refuses 69 'the connection failed' 'T: {vault: "kv/team/api#key"}'
(unset VAULT_ADDR && start_refuses 65 'nothing says where Vault is' 'T: {vault: "kv/team/api#key"}') || failures=$((failures + 1))
grep -rq 'secret-of-the-body\|the-right-token\|hvs.wrong' runs/refused && failed "an answer's body or a token is recorded"
# By a role of the job's own section, whose token is given back.
secret role-secret the-secret-id && secret jwt a.b.c
for auth in 'method: approle, role: trainers, file: role-secret' 'method: jwt, mount: cluster, role: trainers, file: ~/jwt'; do
    spec role 'A: {vault: "kv/team/api#key"}' && echo "vault: {address: '$VAULT_ADDR', namespace: team, auth: {$auth}}" >>role.yaml
    (unset VAULT_ADDR && run role && has 0 A=canary-vault-value && exit "$failures") || failures=$((failures + 1))
    tail -n 1 vault.requests | grep -q 'POST /v1/auth/token/revoke-self token=hvs.the-right-token namespace=team' || failed "a token is not given back: $auth"
done
spec role 'A: {vault: "kv/team/api#key"}' && echo "vault: {address: '$VAULT_ADDR', auth: {method: approle, role: readers, file: role-secret}}" >>role.yaml
(unset VAULT_ADDR && says 77 'answers 400 for auth/approle/login' "$AUTOLAUNCH" -c role.yaml --log-dir runs/role-refused && exit "$failures") || failures=$((failures + 1))
# A server that does not answer holds up no stop.
spec slow 'T: {vault: "slow/team/api#key"}'
"$AUTOLAUNCH" -c slow.yaml --log-dir runs/slow >slow.log 2>&1 </dev/null &
eventually "a question to a server that is slow" grep -q slow vault.requests
kill %+ && SECONDS=0
wait $! && failed "a job that was stopped ended well"
[ "$SECONDS" -lt 5 ] || failed "a server that does not answer holds up a stop for $SECONDS s"
unset http_proxy VAULT_ADDR

# ---- what ranks print, restarts, and the ways ranks start ---------------------------------------------------------------
# Its own log is a rank's; the console and the screen of a failure are ours. The second generation has the new value.
spec again 'T: {file: token}' 'F: {file: token, as: file}' 'C: {command: [sh, -c, "echo x >>asked; echo $(cat of-a-command)-$(wc -l <asked)"]}'
cat >again.sh <<'END'
echo "value $T $C"
cat "$F_FILE" >>seen
echo canary-of-the-next >token
echo "RuntimeError: $T, $C" >&2
exit 1
END
sed -i 's/quiet: true/quiet: false/; s/ranks_per_node: 2/ranks_per_node: 1/' again.yaml
echo 'restart: {max_restarts: 1}' >>again.yaml
says 1 '| RuntimeError: ***, ***' "$AUTOLAUNCH" -c again.yaml --log-dir runs/again -- /bin/sh again.sh
"$AUTOLAUNCH" report runs/again >again.log 2>&1
expect "what two generations had" $'canary-of-a-file\ncanary-of-the-next' "$(cat seen)"
expect "the log of a rank" "value canary-of-the-next canary-of-a-command-2" "$(head -n 1 runs/again/generation-1/rank-0/stdout)"
grep -rl canary again.log runs/again | grep -v 'generation-.*/std' && failed "a canary is in what autolaunch writes"
secret token $'canary-of-a-file\n'
says 0 'value *** ***' "$AUTOLAUNCH" -c again.yaml --log-dir runs/shown -- /bin/sh -c 'echo value $T $C'
spec short 'T: {command: [echo, 12345]}' && sed -i 's/quiet: true/quiet: false/' short.yaml
says 0 'secrets.T has fewer than 6 bytes: it is not masked' "$AUTOLAUNCH" -c short.yaml --log-dir runs/short

# Python ranks of one interpreter: it has none, and each rank its own.
cat >ranks.py <<'END'
import os, sys
rank = os.environ["RANK"]
with open(f"environ-{rank}", "wb") as file:
    file.write(open("/proc/self/environ", "rb").read())
with open(f"/proc/{os.getppid()}/environ", "rb") as parent, open(f"parent-{rank}", "wb") as file:
    file.write(parent.read())
with open(f"env-{rank}", "w") as file:
    file.writelines(f"{name}={value}\n" for name, value in os.environ.items())
END
spec python 'A: {file: token, ranks: 0}' 'B: {command: [cat, of-a-command], ranks: 1}' && run python --preload json /usr/bin/python3 ranks.py
has 0 A=canary-of-a-file && has 1 B=canary-of-a-command && has_not 0 B && has_not 1 A
grep -lq canary parent-0 parent-1 && failed "the interpreter, or the agent, has a secret in its environment"
grep -q '"event":"python_preloaded"' runs/python/events.jsonl || failed "the ranks were not forked: $(cat python.log)"

# Two agents: the head asks once, and a node has what its ranks get.
export AUTOLAUNCH_JOB_KEY="a key of thirty-two bytes, or so" AUTOLAUNCH_MUNGE_SOCKET=$work/none
spec two 'A: {command: [sh, -c, "echo x >>asked-by-two; cat of-a-command"], ranks: "0-1"}' 'B: {command: [cat, token], ranks: 1}' \
    'C: {file: token, as: file}' && sed -i 's/ranks_per_node: 2/ranks_per_node: 1/' two.yaml
for node in 0 1; do
    "$AUTOLAUNCH" --nnodes 2 --node-rank $node --rdzv-endpoint 127.0.0.1 -c two.yaml --rdzv-id "$E2E_MARK" --log-dir "$work/runs/two" >two-$node.log 2>&1 </dev/null &
    agents[node]=$!
done
for node in 0 1; do wait "${agents[node]}" || failed "node $node of two ended with $?: $(cat two-$node.log)"; done
has 0 A=canary-of-a-command && has 1 A=canary-of-a-command && has 1 B=canary-of-a-file && has_not 0 B
expect "times that a command ran for two nodes" 1 "$(wc -l <asked-by-two)"
grep -rl canary runs/two two-?.log && failed "a canary is in what an agent writes"
unset AUTOLAUNCH_JOB_KEY AUTOLAUNCH_MUNGE_SOCKET

# An agent that is killed leaves no secret in memory: its keeper removes it.
spec killed 'F: {file: token, as: file}'
"$AUTOLAUNCH" -c killed.yaml --log-dir runs/killed -n 1 -- "$misbehave" hang >killed.log 2>&1 </dev/null &
eventually "a rank" grep -qs '"event":"rank_started"' runs/killed/events.jsonl
rank=$(sed -n 's/.*"event":"rank_started".*"pid":\([0-9]*\).*/\1/p' runs/killed/events.jsonl)
file=$(tr '\0' '\n' <"/proc/$rank/environ" | sed -n 's/^F_FILE=//p')
[ -s "$file" ] || failed "a rank that runs has no file of its secret: '$file'"
kill -9 "$(awk '{ print $4 }' "/proc/$rank/stat")"
wait $! 2>/dev/null
[ ! -e "${file%/*}" ] || failed "the folder of secrets outlives an agent that was killed"
nothing_left
count_failures
