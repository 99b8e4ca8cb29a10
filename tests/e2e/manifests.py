# Random specs through `autolaunch submit --to`, and what it prints against rules or schemas:
#   manifests.py rules FOLDER       what API servers check besides schemas, and the spec read again
#   manifests.py crds FOLDER CRDS   JobSets and Jobs of Volcano against the schemas in their CRDs, strictly
#   manifests.py core FOLDER        all else against the strict schemas of PyPI's kubernetes-validate
import json, os, random, re, subprocess, sys, yaml

KINDS = ["kubernetes", "jobset", "volcano"]
PROGRAM = os.environ["AUTOLAUNCH"]
LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
QUALIFIED = re.compile(r"^([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
failed = 0


def fail(spec, *what):
    global failed
    failed += 1
    print("FAILED:", *what, "\n  of", json.dumps(spec), flush=True) if failed <= 5 else None


def maybe(rng, chance, key, value, into):
    if rng.random() < chance:
        into[key] = value(rng) if callable(value) else value


def random_spec(seed):
    rng = random.Random(seed)
    pick = lambda *words: lambda r: r.choice(words)
    pods = {"image": rng.choice(["i", "reg.example.org:5000/a/b:1.2", "x@sha256:" + "0" * 64]), "job_key": "keys/k.ey_1"}
    maybe(rng, 0.3, "image_pull_policy", pick("Always", "never", "IfNotPresent"), pods)
    maybe(rng, 0.3, "image_pull_secrets", ["a", "b.c"], pods)
    maybe(rng, 0.5, "name", pick("a", "gpt-7b", "x" * 40), pods)
    maybe(rng, 0.3, "namespace", "team-a", pods)
    maybe(rng, 0.3, "service_account", "trainer", pods)
    maybe(rng, 0.3, "queue", "q-1", pods)
    maybe(rng, 0.3, "priority_class", "high", pods)
    maybe(rng, 0.3, "labels", {"team": "nlp", "x.io/y": "", "on": "yes", "n": "1"}, pods)
    maybe(rng, 0.3, "annotations", {"a/b": "any: text, {really}\n", "c": "ü"}, pods)
    maybe(rng, 0.3, "node_selector", {"nvidia.com/gpu.product": "NVIDIA-H200", "zone": "on"}, pods)
    maybe(rng, 0.4, "tolerations", lambda r: r.sample([{"key": "a", "effect": "NoSchedule"}, {"operator": "Exists"}, {
        "key": "b", "value": "1", "effect": "NoExecute", "seconds": 30}], r.randint(1, 3)), pods)
    maybe(rng, 0.4, "topology_spread", pick("kubernetes.io/hostname", [
        {"topology_key": "zone", "max_skew": 2, "when_unsatisfiable": "ScheduleAnyway"}]), pods)
    maybe(rng, 0.6, "memory", pick("64GiB", "1500MB", 10**9, "1TiB"), pods)
    maybe(rng, 0.4, "cpus", pick(1, 0.5, 2.25, 96), pods)
    if "memory" in pods:
        maybe(rng, 0.4, "hugepages", pick({"2Mi": "4MiB"}, {"1Gi": "2GiB", "2Mi": "2MiB"}), pods)
        maybe(rng, 0.3, "shm_size", "64MiB", pods)
    maybe(rng, 0.3, "rdma", {"rdma/hca_shared_devices_a": 1, "nvidia.com/hostdev": 8}, pods)
    maybe(rng, 0.3, "gpu_resource", pick("amd.com/gpu", "nvidia.com/mig-1g.10gb"), pods)
    maybe(rng, 0.3, "retries", pick(0, 1, 10), pods)
    maybe(rng, 0.3, "active_deadline", pick("2d", 90), pods)
    maybe(rng, 0.3, "ttl_after_finished", "1h", pods)
    maybe(rng, 0.3, "run_as_user", 4711, pods)
    maybe(rng, 0.5, "volumes", lambda r: r.sample([
        {"mount": "/data", "claim": "data", "read_only": True}, {"mount": "/h", "host_path": "/mnt/h"},
        {"mount": "/n", "nfs": "nas.example.org:/x/y", "sub_path": "a/b"}, {"mount": "/c", "config_map": "c"},
        {"mount": "/s", "secret": "s"}, {"mount": "/e", "empty_dir": "10GiB"}], r.randint(1, 6)), pods)
    spec = {"trainer": {"command": ["python3", "train.py", "--x", "$${HOME}", "a: b", ""], "env": {"A": "no", "B": 1}}, "kubernetes": pods}
    resources = {"nodes": rng.choice([1, 2, 16, {"min": 2, "max": 4}, {"min": 3, "spares": 1}])}
    maybe(rng, 0.6, "gpus_per_node", pick(1, 8), resources)
    if resources.get("gpus_per_node"):
        maybe(rng, 0.5, "cpu_cores_per_gpu", 4, resources)
        maybe(rng, 0.5, "ranks_per_node", "gpu", resources)
    maybe(rng, 0.9, "resource_management", resources, spec)
    maybe(rng, 0.4, "slurm_config", {"job_name": "Seven_B (2)", "qos": "x"}, spec)
    maybe(rng, 0.5, "monitoring", {"log_path": rng.choice(["/data/runs", "/e/runs", "runs"])}, spec)
    maybe(rng, 0.5, "restart", {"max_restarts": 2, "grace_period": rng.choice(["5s", "3m"])}, spec)
    maybe(rng, 0.5, "checkpoint", {"enabled": True, "checkpoint_dir": "/data/c", "every_steps": 10}, spec)
    if rng.random() < 0.5:
        spec["secrets"] = {"HF_TOKEN": {"file": "~/t", "ranks": "0,3-5"}, "K": {"command": ["pass", "k"], "as": "file"}}
        pods["secrets"] = {"HF_TOKEN": "hub/token", "K": "k8s/K_1"}
    maybe(rng, 0.5, "model", {"a": ["1", 1, "yes", {"b": [[], {}, [1]]}], "t": "x\ny\n", "u": "\u2028\u0085é🚀", "v": "${model.a}"}, spec)
    return spec


def rendered(folder, count):
    for seed in range(count):
        spec = random_spec(seed)
        path = f"{folder}/{seed}.yaml"
        with open(path, "w") as file:
            yaml.safe_dump(spec, file, sort_keys=False)
        for kind in KINDS:
            run = subprocess.run([PROGRAM, "submit", "-c", path, "--to", kind], capture_output=True, text=True, timeout=60)
            if run.returncode != 0:
                fail(spec, kind, "exits with", run.returncode, run.stderr)
                continue
            yield spec, kind, path, list(yaml.safe_load_all(run.stdout)), run


def template_of(kind, documents):
    job = documents[-1]["spec"]
    if kind == "volcano":
        return job["tasks"][0]["template"]
    return (job if kind == "kubernetes" else job["replicatedJobs"][0]["template"]["spec"])["template"]


def check_pod(kind, spec, documents):
    template = template_of(kind, documents)
    pod, container = template["spec"], template["spec"]["containers"][0]
    names = [volume["name"] for volume in pod["volumes"]]
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    resources = container.get("resources", {"limits": {}, "requests": {}})
    limits = resources["limits"]
    pages = [volume["emptyDir"]["medium"][10:] for volume in pod["volumes"] if volume.get("emptyDir", {}).get("medium", "").startswith("HugePages-")]
    labels = dict(template["metadata"]["labels"], **documents[-1]["metadata"]["labels"])
    yield "volumes", len(set(names)) == len(names) and all(LABEL.match(name) for name in names)
    yield "mounts", len(set(mounts)) == len(mounts) and sorted(names) == sorted(mount["name"] for mount in container["volumeMounts"])
    yield "requests", resources["requests"] == limits
    yield "hugepages", all("hugepages-" + page in limits for page in pages) and (not pages or "memory" in limits or "cpu" in limits)
    yield "labels", all(QUALIFIED.match(key) and (value == "" or QUALIFIED.match(value)) for key, value in labels.items())
    yield "restartPolicy", pod["restartPolicy"] == "Never"
    yield "a key where there are several", (documents[-1]["spec"].get("completions", 1) == 1) or container["env"][0]["name"] == "AUTOLAUNCH_JOB_KEY"
    hosts = {"kubernetes": "{}-{}", "jobset": "{}-worker-0-{}", "volcano": "{}-worker-{}"}[kind]
    count = max(nodes_of(spec) - 1, 0)
    yield "host names", len(hosts.format(documents[-1]["metadata"]["name"], count)) <= 63 and LABEL.match(documents[-1]["metadata"]["name"])
    security, inner = pod["securityContext"], container["securityContext"]
    # Pod Security "restricted", but for what the notes name.
    yield "restricted", security["runAsNonRoot"] and security["runAsUser"] > 0 and security["seccompProfile"]["type"] == "RuntimeDefault" \
        and inner["allowPrivilegeEscalation"] is False and inner["capabilities"]["drop"] == ["ALL"] \
        and ("add" in inner["capabilities"]) == ("rdma" in spec["kubernetes"])


def nodes_of(spec):
    nodes = spec.get("resource_management", {}).get("nodes", 1)
    return nodes if isinstance(nodes, int) else nodes.get("max", nodes["min"]) + nodes.get("spares", 0)


def check_job(job, pods):
    rules = job["podFailurePolicy"]["rules"]
    values = [rule["onExitCodes"]["values"] for rule in rules if "onExitCodes" in rule]
    yield "exit codes", all(v == sorted(set(v)) and 0 not in v and len(v) <= 255 for v in values)
    yield "rules", all(("onExitCodes" in rule) != ("onPodConditions" in rule) for rule in rules) and len(rules) <= 20
    yield "replacement", job["podReplacementPolicy"] == "Failed"  # the one value that goes with podFailurePolicy
    yield "pods", job["completions"] == job["parallelism"] == pods
    success = job.get("successPolicy", {"rules": []})["rules"]
    yield "success", all(rule.get("succeededCount", 1) <= pods for rule in success)


def rules(folder):
    for spec, kind, path, documents, run in rendered(folder, 60):
        checks = list(check_pod(kind, spec, documents))
        if kind != "volcano":
            job = documents[-1]["spec"]
            checks += check_job(job if kind == "kubernetes" else job["replicatedJobs"][0]["template"]["spec"], nodes_of(spec))
        for name, good in checks:
            if not good:
                fail(spec, kind, name, run.stdout)
        inner = f"{folder}/inner.yaml"
        with open(inner, "w") as file:
            file.write(documents[0]["data"]["train.yaml"])
        again = subprocess.run([PROGRAM, "validate", inner], capture_output=True, text=True, timeout=60)
        if again.returncode != 0:
            fail(spec, kind, "the spec in the pods:", again.stderr)
        given = yaml.safe_load(open(inner))
        if given.get("model") != json.loads(json.dumps(spec.get("model")).replace("${model.a}", "$${model.a}")):
            fail(spec, "the trainer's part differs", given.get("model"))


def strictly(schema):
    """What a CRD does not name is dropped by a server, and refused by kubectl: here it is an error."""
    if isinstance(schema, list):
        return [strictly(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: strictly(inner) for key, inner in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and \
            not schema.get("x-kubernetes-preserve-unknown-fields") and "additionalProperties" not in schema:
        schema["additionalProperties"] = False
    return schema


def crds(folder, crd_folder):
    from jsonschema import Draft7Validator
    validators = {}
    for kind, file in (("jobset", "jobset.yaml"), ("volcano", "vcjob.yaml")):
        crd = yaml.load(open(f"{crd_folder}/{file}"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for version in crd["spec"]["versions"]:
            schema = strictly(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}  # the server's own
            validators[kind] = (crd["spec"]["group"] + "/" + version["name"], crd["spec"]["names"]["kind"], Draft7Validator(schema))
    for spec, kind, path, documents, run in rendered(folder, 40):
        if kind not in validators:
            continue
        api, name, validator = validators[kind]
        if (documents[-1]["apiVersion"], documents[-1]["kind"]) != (api, name):
            fail(spec, documents[-1]["apiVersion"], "is not", api)
        for error in validator.iter_errors(documents[-1]):
            fail(spec, kind, "/".join(map(str, error.absolute_path)), error.message[:300])
    for inner in (documents[-1]["spec"], template_of("volcano", documents)["spec"]["containers"][0]):
        inner["misspelt"] = 1
        if not list(validators["volcano"][2].iter_errors(documents[-1])):
            fail({}, "a misspelt field passes")
        del inner["misspelt"]


def core(folder):
    import kubernetes_validate
    versions = ["1.31", kubernetes_validate.latest_version()]

    def check(spec, document):
        for version in versions:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                fail(spec, version, document["kind"], error.message, list(error.path))

    for spec, kind, path, documents, run in rendered(folder, 40):
        for document in documents:
            if document["apiVersion"] in ("v1", "batch/v1"):
                check(spec, document)
        if kind == "jobset":
            check(spec, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **documents[-1]["spec"]["replicatedJobs"][0]["template"]})
        if kind == "volcano":
            check(spec, {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": template_of(kind, documents)})
    template = template_of("volcano", documents)
    template["spec"]["containers"][0]["misspelt"] = 1
    try:
        kubernetes_validate.validate({"apiVersion": "v1", "kind": "PodTemplate", "template": template}, versions[1], strict=True)
        fail({}, "a misspelt field passes")
    except kubernetes_validate.ValidationError:
        pass


{"rules": rules, "crds": crds, "core": core}[sys.argv[1]](*sys.argv[2:])
print(f"manifests: {sys.argv[1]}:", "all as expected" if not failed else f"{failed} wrong")
sys.exit(failed > 0)
