# What surrounds a pod, of the objects that `autolaunch submit --to` prints: enough of it for kubernetes.sh.
#   kubelet.py pods MANIFEST SECRETS FOLDER    FOLDER/N/pod.json and FOLDER/N/etc of each pod; SECRETS is JSON, {"secret/key": value}
#   kubelet.py run FOLDER ADDRESS NAMESERVER   becomes the pod: its names, files, user and environment, in namespaces of its own
#   kubelet.py name FOLDER                     the name by which others find it
#   kubelet.py after MANIFEST CODE             what the controller does about a pod that ended so
#   kubelet.py dns ADDRESS RECORDS             answers from the file RECORDS, a name and an address a line
import ctypes, json, os, socket, struct, subprocess, sys, yaml


def load(path):
    documents = list(yaml.safe_load_all(open(path)))
    return documents, documents[-1]["apiVersion"].split(".")[0].split("/")[0], documents[-1]["spec"]


def parts(documents, kind, spec):
    """Name of the hosts, domain, template and number of pods, and the variables of pod N."""
    name = documents[-1]["metadata"]["name"]
    if kind == "batch" and "tasks" in spec:  # Volcano: its plugins svc and env
        task = spec["tasks"][0]
        hosts = [f"{name}-{task['name']}-{i}" for i in range(task["replicas"])]
        told = {}
        if "svc" in spec["plugins"]:
            told[f"VC_{task['name'].upper()}_HOSTS"] = ",".join(f"{host}.{name}" for host in hosts)
            told[f"VC_{task['name'].upper()}_NUM"] = str(len(hosts))
        index = lambda i: {"VC_TASK_INDEX": str(i), "VK_TASK_INDEX": str(i)} if "env" in spec["plugins"] else {}
        return hosts, name, task["template"], lambda i: dict(told, **index(i))
    if kind == "jobset":  # which makes the Service
        replicated = spec["replicatedJobs"][0]
        assert spec["network"]["enableDNSHostnames"] and replicated["replicas"] == 1
        job, prefix, subdomain = replicated["template"]["spec"], f"{name}-{replicated['name']}-0", spec["network"].get("subdomain", name)
    else:
        job, prefix = spec, name
        subdomain = job["template"]["spec"]["subdomain"]
        service = next(d for d in documents if d["kind"] == "Service" and d["metadata"]["name"] == subdomain)
        assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"]
        assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    assert job["completionMode"] == "Indexed"
    hosts = [f"{prefix}-{i}" for i in range(job["completions"])]
    return hosts, subdomain, job["template"], lambda i: {"JOB_COMPLETION_INDEX": str(i)}


def projected(folder, files, mode):
    """As the kubelet writes them: links to links, so that all change at once."""
    os.makedirs(f"{folder}/..2026")
    os.symlink("..2026", f"{folder}/..data")
    for name, text in files.items():
        with open(f"{folder}/..2026/{name}", "w") as file:
            file.write(text)
        os.chmod(f"{folder}/..2026/{name}", mode)
        os.symlink(f"..data/{name}", f"{folder}/{name}")


def pods(manifest, secrets, folder):
    documents, kind, spec = load(manifest)
    values = json.loads(secrets)
    hosts, domain, template, told = parts(documents, kind, spec)
    pod, container = template["spec"], template["spec"]["containers"][0]
    namespace = documents[-1]["metadata"].get("namespace", "default")
    maps = {d["metadata"]["name"]: d["data"] for d in documents if d["kind"] == "ConfigMap"}
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    for i, host in enumerate(hosts):
        here = f"{folder}/{i}"
        environment = dict(told(i), PATH=os.environ["PATH"], HOSTNAME=host, KUBERNETES_SERVICE_HOST="10.96.0.1", KUBERNETES_SERVICE_PORT="443")
        for variable in container.get("env", []):
            source = variable["valueFrom"]["secretKeyRef"]
            environment[variable["name"]] = values[f"{source['name']}/{source['key']}"]
        for volume in pod["volumes"]:
            path = here + mounted[volume["name"]]
            if "configMap" in volume:
                projected(path, maps[volume["configMap"]["name"]], 0o644)
            if "projected" in volume:
                files = {item["path"]: values[f"{s['secret']['name']}/{item['key']}"]
                         for s in volume["projected"]["sources"] for item in s["secret"]["items"]}
                projected(path, files, volume["projected"]["defaultMode"])
        security = pod["securityContext"]
        json.dump({"host": host, "domain": f"{domain}.{namespace}.svc.cluster.local", "search": f"{namespace}.svc.cluster.local",
                   "command": container["command"], "environment": environment, "user": security["runAsUser"],
                   "group": security["runAsGroup"], "files_of": security["fsGroup"],
                   "confined": security["seccompProfile"]["type"] == "RuntimeDefault" and not container["securityContext"]["allowPrivilegeEscalation"]}, open(f"{here}/pod.json", "w"))


# What the default profile of container runtimes refuses to who has no capability, of what a launcher might try: on x86_64
# mbind, set_mempolicy, get_mempolicy, migrate_pages, move_pages, mount, unshare, setns, bpf, perf_event_open, io_uring_setup.
REFUSED = [237, 238, 239, 256, 279, 165, 272, 308, 321, 298, 425]


def confine():
    """allowPrivilegeEscalation: false, and seccompProfile: RuntimeDefault."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    if os.uname().machine != "x86_64":
        return
    load_number, jump_if_equal, give = 0x20, 0x15, 0x06
    steps = [(load_number, 0, 0, 0)]
    steps += [(jump_if_equal, len(REFUSED) - i, 0, number) for i, number in enumerate(REFUSED)]
    steps += [(give, 0, 0, 0x7FFF0000), (give, 0, 0, 0x00050001)]  # allowed; EPERM
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    assert libc.prctl(22, 2, program, 0, 0) == 0, os.strerror(ctypes.get_errno())  # PR_SET_SECCOMP, a filter


def run(folder, address, nameserver):
    pod = json.load(open(f"{folder}/pod.json"))
    has_users = os.environ.get("ROOM_HAS_USERS") == "yes"  # else there is root alone, who is nobody outside
    for target, mode in (("/run", "755"), ("/dev/shm", "1777")):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode={mode}", "tmpfs", target], check=True)
    os.mkdir("/run/etc")
    for name in ("passwd", "group", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "python3", "python3.11"):
        if os.path.lexists(f"/etc/{name}"):
            subprocess.run(["cp", "-dR", f"/etc/{name}", "/run/etc/"], check=True)
    subprocess.run(["cp", "-dR", "--preserve=mode", f"{folder}/etc/.", "/run/etc/"], check=True)
    texts = {"hosts": f"127.0.0.1 localhost\n{address} {pod['host']}.{pod['domain']} {pod['host']}\n",
             "resolv.conf": f"nameserver {nameserver}\nsearch {pod['search']} svc.cluster.local cluster.local\noptions ndots:5\n",
             "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n", "hostname": pod["host"] + "\n"}
    for name, text in texts.items():
        with open(f"/run/etc/{name}", "w") as file:
            file.write(text)
    secrets = "/run/etc/autolaunch-secrets"
    for place, _, names in os.walk(secrets):
        for name in names:
            os.chown(f"{place}/{name}", 0, pod["files_of"] if has_users else 0, follow_symlinks=False)
    subprocess.run(["mount", "--bind", "/run/etc", "/etc"], check=True)
    socket.sethostname(pod["host"])
    os.chdir("/tmp")
    if has_users:
        os.setgroups([pod["files_of"]])
        os.setgid(pod["group"])
        os.setuid(pod["user"])
    if pod["confined"]:
        confine()
    os.execvpe(pod["command"][0], pod["command"], pod["environment"])


def after(manifest, code):
    documents, kind, spec = load(manifest)
    code = int(code)
    if "tasks" in spec:
        for policy in spec["policies"]:
            if policy.get("exitCode") == code or policy.get("event") == "PodFailed":
                return print(policy["action"])
        return print("nothing")
    job = spec if kind == "batch" else spec["replicatedJobs"][0]["template"]["spec"]
    for rule in job["podFailurePolicy"]["rules"]:
        codes = rule.get("onExitCodes")
        if codes and (code in codes["values"]) == (codes["operator"] == "In"):
            return print(rule["action"])
    print("Count")


def dns(address, records):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    while True:
        query, client = server.recvfrom(1500)
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
            at += query[at] + 1
        kind = struct.unpack("!H", query[at + 1:at + 3])[0]
        known = dict(line.split() for line in open(records) if line.strip())
        found = known.get(".".join(labels))
        answer = b""
        if found and kind == 1:
            answer = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 5, 4) + socket.inet_aton(found)
        flags = 0x8580 if found else 0x8583  # NXDOMAIN
        server.sendto(query[:2] + struct.pack("!HHHHH", flags, 1, bool(answer), 0, 0) + query[12:at + 5] + answer, client)


def name(folder):
    pod = json.load(open(f"{folder}/pod.json"))
    print(f"{pod['host']}.{pod['domain']}")


{"pods": pods, "run": run, "name": name, "after": after, "dns": dns}[sys.argv[1]](*sys.argv[2:])
