#!/bin/bash
# `autolaunch submit --to` on many specs: what API servers refuse besides schemas, what is told and refused, and that the spec in the
# pods is the one that was given. Schemas: manifest_schemas.sh.
. "$(dirname "$0")/lib.sh"
/usr/bin/python3 -c 'import yaml' 2>/dev/null || skip "python3-yaml is not installed"
mkdir specs && timeout 100 /usr/bin/python3 "$AUTOLAUNCH_SOURCE_DIR/tests/e2e/manifests.py" rules specs || fail "the rules"

manifest=("$AUTOLAUNCH" submit -c train.yaml --to)
printf 'trainer: {command: [./t]}\nkubernetes: {image: i}\nslurm_config: {qos: high}\n' >train.yaml
"${manifest[@]}" kubernetes >out.yaml 2>err.log || fail "no manifest"
expect "objects" "ConfigMap Service Job" "$(sed -n 's/^kind: //p' out.yaml | paste -sd' ')"
contains "what is not carried over" err.log "of slurm_config is not carried over: qos (kubernetes.priority_class)"
LC_ALL=C "${manifest[@]}" kubernetes kubernetes.annotations.a=ü 2>err.log | grep -qF 'a: "\xfc"' || fail "text is not what it was"
says 65 "train.yaml:2:1: kubernetes.job_key: is needed" "${manifest[@]}" jobset resource_management.nodes=2
"${manifest[@]}" volcano kubernetes.image= >out.yaml 2>err.log && fail "no image is taken"
expect "what is printed of a spec that does not do" "" "$(cat out.yaml)"
says 65 "unknown key; did you mean \"image\"?" "${manifest[@]}" volcano kubernetes.imag=x
says 64 "expected slurm, or one of kubernetes, jobset, volcano" "${manifest[@]}" podman
says 64 "submit needs a spec" "$AUTOLAUNCH" submit --to jobset
says 64 "prints what kubectl submits" "${manifest[@]}" jobset --wait
says 64 "--run goes with --to" "$AUTOLAUNCH" submit -c train.yaml --run .
says 64 "trainer.command='[./other, x]'" "${manifest[@]}" jobset ./other x
says 66 "no saves were measured there" "${manifest[@]}" jobset --run .
says 66 "absent.yaml" "$AUTOLAUNCH" submit -c absent.yaml --to jobset
# The saves of an earlier run, in seconds.
mkdir earlier && "$AUTOLAUNCH" --log-dir earlier/run /bin/true >run.log 2>&1 </dev/null || fail "no run"
echo '{"format": 1, "save_seconds": [80.0]}' >earlier/run/save-times.json
says 0 "terminationGracePeriodSeconds: 99" "${manifest[@]}" kubernetes --run earlier/run
# No value of a secret, by whatever way.
DB_PASSWORD=hunter2hunter2 says 65 "holds a secret" "${manifest[@]}" kubernetes 'model.url=db:${DB_PASSWORD}'
DB_PASSWORD=hunter2hunter2 "${manifest[@]}" kubernetes 'model.url=db:hunter2hunter2' >out.yaml 2>err.log && fail "a secret gets through"
grep -q hunter2 out.yaml err.log && fail "a secret is shown"
count_failures
