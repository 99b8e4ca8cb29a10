#include "spec/schema.hpp"

#include <algorithm>
#include <array>

namespace autolaunch::launcher {

namespace {

// A captureless function from a JobSpec to one of its members.
#define FIELD(member) \
    [](JobSpec & spec) -> auto& { return spec.member; }

constexpr std::string_view kAsSite =
    "As in the administrator's file, which a job may tighten and never loosen (docs/site.md).";

Key of_site(std::string_view name) { return {name, Form::of_site, std::monostate{}, "", kAsSite}; }
Key switch_of_site(std::string_view name) {
    return {name, Form::of_site, std::monostate{}, "", kAsSite, {"true", "false"}};
}
Section section_of_site(std::string_view name) {
    return {.name = name, .description = kAsSite, .of_site = true};
}

Section pipeline_section() {
    return {.name = "pipeline",
            .description =
                "Several jobs that autolaunch submit hands to Slurm together, a stage each: a list "
                "of {name: train, spec: train.yaml, after: ok}. `after` says how the stage before "
                "must have ended: ok, any, notok, or corr (of arrays the element of the same "
                "number); {prepare: ok, fetch: any} names others. `spec` is relative to this file, "
                "which has no other section.",
            .of_pipeline = true};
}

Section sweep_section() {
    return {
        .name = "sweep",
        .description =
            "Many jobs of this spec, an array of Slurm's, each with other values of some keys "
            "(docs/guides/submit.md#sweeps). `grid`: {optimizer.lr: [1e-3, 1e-4], "
            "trainer.config.seed: [1, 2]}, all combinations; `list`: [{optimizer.lr: 1e-2, "
            "model.layers: 4}], these; `random`: {samples: 20, seed: 1, ranges: "
            "{optimizer.lr: {log: [1e-5, 1e-2]}}}, drawn from uniform, log or integer: [LOW, "
            "HIGH], or choice: [A, B]. `metric` (loss, seconds or tokens_per_second, without it "
            "loss) and `mode` (min or max, without it min) say which is best. `early_stop`: "
            "{rule: median, every: 100, min_elements: 3} or {rule: asha, eta: 3}, both with "
            "min_steps: 100; metric and mode may stand there, too. `element` is the number of "
            "the one that `run` or `plan` is of. `of` and `values` are what autolaunch submit "
            "writes into an element's stored spec.",
        .of_sweep = true};
}

Section secrets_section() {
    return {.name = "secrets",
            .description =
                "Secrets that ranks get, by the name of their variable, and where each comes from "
                "(docs/secrets.md): {HF_TOKEN: {file: ~/.hf_token}, DB_PASSWORD: {command: [pass, "
                "show, db]}, API_KEY: {vault: \"kv/team/api#key\"}, CKPT_KEY: {vault_transit: "
                "run-7.key}}. Of each also `as`: environment, "
                "or file, whose path is in NAME_FILE; and `ranks` (all, or such as \"0,3-5\") or "
                "`programs` (a list of roles), who get it.",
            .of_secrets = true};
}

Section trainer_section() {
    return {"trainer",
            "The program that every rank runs.",
            false,
            false,
            {{"command", Form::command, FIELD(trainer.command), "",
              "The program and its arguments: a list of strings, or one line for /bin/sh. A "
              "PROGRAM on the command line "
              "replaces it."},
             {"module", Form::text, FIELD(trainer.module), "",
              "A Python module to run as `python -m`; `command` then lists its arguments."},
             {"workdir", Form::text, FIELD(trainer.workdir), "",
              "Where ranks start. Without it: where autolaunch was started."},
             {"env", Form::text_map, FIELD(trainer.env), "",
              "Environment variables of every rank; they win over all others."},
             {"mpi",
              Form::text,
              FIELD(trainer.mpi),
              "auto",
              "How ranks that use MPI find each other: by PMIx (Open MPI), by PMI-1 (MPICH and its "
              "relatives) or not at "
              "all. "
              "auto takes what the program is linked with, and offers both to programs that are "
              "linked with no MPI, since what they start may be; none is for ranks that use MPI "
              "each by itself.",
              {"auto", "none", "pmix", "pmi1"}},
             {"stdin", Form::input, FIELD(trainer.input), "0",
              "Which rank gets what comes in on autolaunch's stdin. A terminal's is given only to "
              "a rank that is named here or by --stdin."},
             {"wrap", Form::wrap_map, FIELD(trainer.wrap), "",
              "Commands that the program of these ranks is started by, such as a profiler: "
              "{0: perf record -o perf.$RANK}. /bin/sh reads them."},
             {"preload", Form::preload, FIELD(trainer.preload), "",
              "Python modules that one interpreter a node imports; ranks are forked from it "
              "(docs/python-start.md). auto: what the script and files of its own import before "
              "anything else; off: every rank imports by itself; or a list: [torch, "
              "transformers]. Without it: auto where a run with auto has gone well and its files "
              "are the same, else off."},
             {"preload_from",
              Form::text,
              FIELD(trainer.preload_from),
              "shared",
              "Where that interpreter reads what it imports, if it lies on a file system of a "
              "network. shared: there, each node by itself; node: from copies on the node, which "
              "one node reads and hands on to the others, and which are mounted over the files for "
              "this interpreter and its ranks alone (docs/python-start.md has what differs).",
              {"shared", "node"}},
             {"preload_cache", Form::text, FIELD(trainer.preload_cache), "",
              "With preload_from node: the folder on the node's own disk for the copies, which "
              "stay there for the next job. Without it: autolaunch-UID below /var/tmp."},
             {"config", Form::free_form, std::monostate{}, "",
              "The trainer's own settings. They reach it untouched, in the file named by "
              "AUTOLAUNCH_TRAINER_CONFIG."}}};
}

Section distributed_section() {
    return {"distributed",
            "How the trainer spreads its work. It reaches the trainer as given.",
            false,
            true,
            {{"sharding_strategy",
              Form::text,
              FIELD(distributed.sharding_strategy),
              "",
              "How parameters, gradients and optimizer state are sharded. Without it: the "
              "trainer's own choice.",
              {"full_shard", "shard_grad_op", "shard_optimizer", "no_shard", "hybrid_shard"}},
             {"mixed_precision", Form::text, FIELD(distributed.mixed_precision), "",
              "The trainer's to interpret: no, bf16, fp16, …"},
             {"backend", Form::text, FIELD(distributed.backend), "",
              "The communication backend: nccl, gloo, mpi, shm, … Without it: the trainer's own "
              "choice."}}};
}

Section resource_section() {
    return {
        "resource_management",
        "What the job uses of each machine, and how ranks are placed.",
        false,
        false,
        {{"nodes",
          Form::nodes,
          FIELD(resources),
          "1",
          "Machines. {min: 6, max: 8, spares: 1}: the job goes on while it has 6, and one more "
          "than the 8 waits to take a lost one's place. With group: 2 they take part in twos, "
          "such as the nodes of one replica, or not at all (docs/recovery.md).",
          {},
          1},
         {"grow",
          Form::text,
          FIELD(resources.grow),
          "next",
          "When nodes that come to the running job take part, where it has less than max: next, "
          "when a generation ends anyway; now, at once, after ranks have saved.",
          {"next", "now"}},
         {"gpus_per_node", Form::whole_number, FIELD(resources.gpus_per_node), "",
          "GPUs to use of each machine. Without it: all that are granted."},
         {"ranks_per_node",
          Form::ranks_per_node,
          FIELD(resources),
          "",
          "Ranks on each machine, as torchrun's --nproc-per-node. gpu: one per GPU; cpu: one "
          "per CPU; auto: one per "
          "GPU, or one per CPU where there are none; or their number. Without it: one per GPU, "
          "or one where there are "
          "none.",
          {},
          1},
         {"memory_per_gpu", Form::size, FIELD(resources.memory_per_gpu_bytes), "",
          "Memory that a GPU must have."},
         {"cpu_cores_per_gpu",
          Form::whole_number,
          FIELD(resources.cpu_cores_per_gpu),
          "",
          "CPU cores for each rank that has a GPU.",
          {},
          1},
         {"binding",
          Form::binding,
          FIELD(resources),
          "node",
          "CPUs of a rank. node: all of its NUMA node; exclusive: cores of its own; socket: "
          "its socket; core-complex: "
          "its last-level cache's cores; none: as inherited. Or a list with an entry a local "
          "rank: CPUs "
          "(\"0-7,64-71\"), "
          "NUMA nodes (numa:1) or cores (core:0-3).",
          {"node", "exclusive", "socket", "core-complex", "none"}},
         of_site("gpu_scheduling"),
         of_site("memory_management"),
         of_site("storage_management")}};
}

Section nccl_section() {
    return {"nccl",
            "NCCL's environment variables.",
            false,
            false,
            {{"manage", Form::boolean, FIELD(nccl.manage), "true",
              "Whether autolaunch may set NCCL variables at all."},
             {"profile", Form::text, FIELD(nccl.profile), "auto",
              "Settings of one kind of cluster: auto (by what the firmware says), none, a name "
              "(aws, azure, coreweave, "
              "gcp, "
              "generic, oci) or a file's path with a slash."},
             {"env", Form::nccl_map, FIELD(nccl.env), "",
              "NCCL_* variables as you want them; they win."}}};
}

Section rendezvous_section() {
    return {
        "rendezvous",
        "How ranks find one another.",
        false,
        false,
        {{"timeout", Form::duration, FIELD(rendezvous.timeout), "300s",
          "How long the start may wait for all nodes."},
         {"lost_after",
          Form::duration,
          FIELD(rendezvous.lost_after),
          "10s",
          "How long a node may be silent before it counts as lost. A connection that breaks "
          "counts at once.",
          {},
          1000},
         {"secret_file", Form::text, FIELD(rendezvous.secret_file), "",
          "A file with the job's key, mode 0600."},
         {"preflight", Form::preflight, FIELD(rendezvous.preflight), "false",
          "Check the nodes as `autolaunch doctor` does, and start nothing where one is not "
          "fit; with warn, start and "
          "say so."},
         {"address", Form::text, FIELD(rendezvous.address), "",
          "Address that ranks connect to, as --master-addr."},
         {"port",
          Form::whole_number,
          FIELD(rendezvous.port),
          "0",
          "Port that ranks connect to, as --master-port. 0: a free one.",
          {},
          0,
          65535},
         {"store",
          Form::text,
          FIELD(rendezvous.store),
          "head",
          "Which store MASTER_ADDR and MASTER_PORT name: the head's, or for very many nodes "
          "each node's own way to it. "
          "With "
          "node, scripts that open ports of their own at MASTER_ADDR do not work across nodes.",
          {"head", "node"}},
         {"store_limit", Form::size, FIELD(rendezvous.store_limit_bytes), "1GiB",
          "What the store of a node may hold in memory: keys, values, waits, and requests and "
          "replies under way. Who wants more is disconnected."},
         {"store_connections",
          Form::whole_number,
          FIELD(rendezvous.store_connections),
          "",
          "Connections that the store of a node takes at a time, of one other node half as many. "
          "Without it: 128 for each rank, and 256; at most a quarter of the files that the agent "
          "may have open.",
          {},
          1}}};
}

Section slurm_section() {
    return {
        "slurm_config",
        "What autolaunch submit asks of Slurm. Within an allocation, Slurm has granted it already.",
        false,
        false,
        {{"job_name", Form::text, FIELD(slurm.job_name), "",
          "The job's name, also shown by autolaunch."},
         {"partition", Form::text, FIELD(slurm.partition), "", "--partition"},
         {"time_limit", Form::time_limit, FIELD(slurm.time_limit), "", "--time"},
         {"account", Form::text, FIELD(slurm.account), "", "--account"},
         {"qos", Form::text, FIELD(slurm.qos), "", "--qos"},
         {"constraint", Form::text, FIELD(slurm.constraint), "", "--constraint"},
         {"gres", Form::text, FIELD(slurm.gres), "", "--gres"},
         {"reservation", Form::text, FIELD(slurm.reservation), "", "--reservation"},
         {"nodelist", Form::text, FIELD(slurm.nodelist), "", "--nodelist"},
         {"exclude", Form::text, FIELD(slurm.exclude), "", "--exclude"},
         {"nodes", Form::whole_number, FIELD(slurm.nodes), "", "--nodes", {}, 1},
         {"ntasks_per_node",
          Form::whole_number,
          FIELD(slurm.ntasks_per_node),
          "",
          "--ntasks-per-node",
          {},
          1},
         {"cpus_per_task",
          Form::whole_number,
          FIELD(slurm.cpus_per_task),
          "",
          "--cpus-per-task",
          {},
          1},
         {"gpus_per_node", Form::whole_number, FIELD(slurm.gpus_per_node), "", "--gpus-per-node"},
         {"mem", Form::text, FIELD(slurm.mem), "", "--mem"},
         {"exclusive", Form::boolean, FIELD(slurm.exclusive), "", "--exclusive"},
         {"requeue", Form::boolean, FIELD(slurm.requeue), "", "--requeue or --no-requeue"},
         {"signal", Form::text, FIELD(slurm.signal), "", "--signal"},
         {"output", Form::text, FIELD(slurm.output), "", "--output"},
         {"error", Form::text, FIELD(slurm.error), "", "--error"},
         {"mail_user", Form::text, FIELD(slurm.mail_user), "", "--mail-user"},
         {"mail_type", Form::text, FIELD(slurm.mail_type), "", "--mail-type"},
         {"array", Form::text, FIELD(slurm.array), "",
          "--array, as in 0-9 or 1,3,5-20:5: one job for each number, which finds it in "
          "SLURM_ARRAY_TASK_ID."},
         {"array_throttle",
          Form::whole_number,
          FIELD(slurm.array_throttle),
          "",
          "So many of the array run at the same time.",
          {},
          1},
         {"dependency", Form::text, FIELD(slurm.dependency), "",
          "--dependency, as in afterok:4711 or singleton."},
         {"licenses", Form::text, FIELD(slurm.licenses), "", "--licenses"},
         {"switches", Form::text, FIELD(slurm.switches), "",
          "--switches, as in 1@60: at most one switch, waited for up to 60 minutes."},
         {"modules", Form::text_list, FIELD(slurm.modules), "",
          "The batch script of autolaunch submit loads them, in this order, before all else."},
         {"venv", Form::text, FIELD(slurm.venv), "",
          "A virtual environment of Python's, a folder: the batch script activates it."},
         {"conda", Form::text, FIELD(slurm.conda), "",
          "An environment of conda's, by name or folder: the batch script activates it."},
         {"setup", Form::text_list, FIELD(slurm.setup), "",
          "Lines of shell that the batch script runs before it starts autolaunch; one that fails "
          "ends the job."},
         {"extra_args", Form::text_list, FIELD(slurm.extra_args), "",
          "Further options, as one would type them."}}};
}

Section kubernetes_section() {
    return {
        "kubernetes",
        "The pods that `autolaunch submit --to` writes (docs/guides/kubernetes.md). A job that "
        "runs "
        "does not read it.",
        false,
        false,
        {{"image", Form::text, FIELD(kubernetes.image), "",
          "The image, with the trainer and autolaunch in it. A manifest needs it."},
         {"image_pull_policy",
          Form::text,
          FIELD(kubernetes.image_pull_policy),
          "",
          "When it is pulled. Without it: Kubernetes' own choice.",
          {"always", "ifnotpresent", "never"}},
         {"image_pull_secrets", Form::text_list, FIELD(kubernetes.image_pull_secrets), "",
          "Secrets with which it is pulled."},
         {"name", Form::text, FIELD(kubernetes.name), "",
          "What the job and its Service are called. Without it: slurm_config.job_name or the "
          "program's name, in small letters, digits and dashes."},
         {"namespace", Form::text, FIELD(kubernetes.namespace_name), "",
          "Without it: kubectl's own."},
         {"service_account", Form::text, FIELD(kubernetes.service_account), "",
          "The pods' ServiceAccount. Without it: the namespace's, whose token they do not get."},
         {"queue", Form::text, FIELD(kubernetes.queue), "",
          "Volcano's queue; of a Job or JobSet Kueue's LocalQueue."},
         {"priority_class", Form::text, FIELD(kubernetes.priority_class), "", "The PriorityClass."},
         {"labels", Form::text_map, FIELD(kubernetes.labels), "",
          "Labels of the job and its pods."},
         {"annotations", Form::text_map, FIELD(kubernetes.annotations), "",
          "Annotations of the job and its pods."},
         {"node_selector", Form::text_map, FIELD(kubernetes.node_selector), "",
          "Labels that the nodes must have."},
         {"tolerations", Form::tolerations, FIELD(kubernetes.tolerations), "",
          "Taints that the pods tolerate. operator: Exists where no value is given."},
         {"topology_spread", Form::spread, FIELD(kubernetes.topology_spread), "",
          "Over what the pods are spread: max_skew 1, when_unsatisfiable DoNotSchedule or "
          "ScheduleAnyway."},
         {"gpu_resource", Form::text, FIELD(kubernetes.gpu_resource), "nvidia.com/gpu",
          "What resource_management.gpus_per_node counts: also amd.com/gpu, or a part of a GPU, "
          "such as nvidia.com/mig-1g.10gb."},
         {"cpus", Form::number, FIELD(kubernetes.cpus), "",
          "CPUs of a pod. Without it: resource_management's cpu_cores_per_gpu x gpus_per_node, or "
          "as many as the node leaves it."},
         {"memory", Form::size, FIELD(kubernetes.memory_bytes), "", "Memory of a pod."},
         {"shm_size", Form::size, FIELD(kubernetes.shm_bytes), "",
          "The most that /dev/shm may hold, which counts as the pod's memory. Without it: half of "
          "memory, or no limit of its own."},
         {"rdma", Form::resource_map, FIELD(kubernetes.rdma), "",
          "Resources of the HCAs of a pod, by the names of the cluster's device plugin. Pods that "
          "have some may lock memory (IPC_LOCK)."},
         {"hugepages", Form::hugepages, FIELD(kubernetes.hugepages), "",
          "Huge pages of a pod, mounted at /dev/hugepages-SIZE."},
         {"volumes", Form::volumes, FIELD(kubernetes.volumes), "",
          "What is mounted: {mount: /data, claim: datasets, read_only: true}; nfs is "
          "SERVER:/PATH, empty_dir a size."},
         {"secrets", Form::secret_keys, FIELD(kubernetes.secrets), "",
          "Where the job's `secrets` come from in the cluster, by their names: {HF_TOKEN: "
          "hub/token} is the key token of the Secret hub."},
         {"job_key", Form::secret_key, FIELD(kubernetes.job_key), "",
          "The key of a Secret that proves that pods are of one job. Jobs of several pods need "
          "it."},
         {"run_as_user",
          Form::whole_number,
          FIELD(kubernetes.user),
          "1000",
          "The user of the pods, never root.",
          {},
          1},
         {"run_as_group",
          Form::whole_number,
          FIELD(kubernetes.group),
          "1000",
          "Their group, to which volumes are given, too (fsGroup).",
          {},
          1},
         {"retries",
          Form::whole_number,
          FIELD(kubernetes.retries),
          "3",
          "How often Kubernetes starts the whole job again where its nodes did not come together, "
          "one was lost or the system refused. Exit code 75 and evictions do not count (with "
          "Volcano they do, where this is given); a program "
          "that failed is not started again (that is restart.max_restarts).",
          {},
          0,
          1000},
         {"active_deadline", Form::duration, FIELD(kubernetes.active_deadline), "",
          "The job is ended after this time, whatever has become of it."},
         {"ttl_after_finished", Form::duration, FIELD(kubernetes.ttl), "",
          "It is deleted so long after its end. Without it: it stays."},
         {"autolaunch_path", Form::text, FIELD(kubernetes.autolaunch_path), "autolaunch",
          "autolaunch in the image: a path, or a name in its PATH."}}};
}

Section checkpoint_section() {
    return {
        "checkpoint",
        "Saving and loading. It reaches the trainer as given, and the library's Checkpointer of "
        "`checkpoint_dir` heeds it (docs/checkpoints.md).",
        false,
        true,
        {{"enabled", Form::boolean, FIELD(checkpoint.enabled), "false",
          "Whether the trainer saves checkpoints."},
         {"checkpoint_dir", Form::text, FIELD(checkpoint.checkpoint_dir), "", "Where they are."},
         {"every_steps",
          Form::whole_number,
          FIELD(checkpoint.every_steps),
          "",
          "Steps between two of them.",
          {},
          1},
         {"keep",
          Form::whole_number,
          FIELD(checkpoint.keep),
          "",
          "How many of the newest to keep.",
          {},
          1},
         {"every", Form::text, FIELD(checkpoint.every), "",
          "Steps between two of them (500), time (10m), or optimal: as often as loses the least "
          "time "
          "by saving and by repeating what a failure undid."},
         {"keep_every",
          Form::whole_number,
          FIELD(checkpoint.keep_every),
          "",
          "And those of steps that are multiples of it.",
          {},
          1},
         {"keep_best",
          Form::whole_number,
          FIELD(checkpoint.keep_best),
          "",
          "And so many of the others, by the metric that the trainer saves with them.",
          {},
          1},
         {"better",
          Form::text,
          FIELD(checkpoint.better),
          "",
          "Which metric is the better one.",
          {"lower", "higher"}},
         {"drain", Form::text, FIELD(checkpoint.drain), "",
          "A second place that each checkpoint is copied to in the background: a directory, or "
          "s3://BUCKET/PREFIX. A start finds them there, too (docs/checkpoint-tiers.md)."},
         {"drain_keep",
          Form::whole_number,
          FIELD(checkpoint.drain_keep),
          "",
          "How many of the newest to keep there.",
          {},
          1},
         {"tiers", Form::tiers, FIELD(checkpoint.tiers), "",
          "In place of `drain` several places, the nearest first: [{place: /shared/run7, every: "
          "30m, keep: 3}, {place: \"s3://BUCKET/PREFIX\", every: 2h, keep: 10, bandwidth: "
          "500MB}]. `every` is the least between two that come there, in steps or time; "
          "`bandwidth` what draining may move there a second, over all nodes; `keep`, "
          "`keep_every` and `keep_best` say what stays there (docs/checkpoint-tiers.md)."},
         {"stripe", Form::stripe, FIELD(checkpoint.stripe), "",
          "How new files are spread over the servers of Lustre or BeeGFS, here and in further "
          "places: {count: 8, size: 4MiB}, count a number or all; or auto, by the files' sizes as "
          "they grow, on Lustre (docs/checkpoints.md). Without it: as the directory is."},
         {"drain_wait", Form::duration, FIELD(checkpoint.drain_wait), "",
          "How long the trainer's end waits for what is not there yet, in all places together."},
         {"node_local", Form::boolean, FIELD(checkpoint.node_local), "",
          "checkpoint_dir is each node's own, on its NVMe: it holds its ranks' files alone, and a "
          "checkpoint counts when it is in `drain`, or the first of `tiers`."},
         {"pass_over_unusable", Form::boolean, FIELD(checkpoint.pass_over_unusable), "false",
          "Whether to go on without checkpoints that cannot be used, anew where none is left."},
         {"memory_limit", Form::size, FIELD(checkpoint.memory_limit_bytes), "",
          "Memory of a node that may hold copies of its ranks' state; without it, half of what the "
          "ranks may use."},
         {"signing_key", Form::text, FIELD(checkpoint.signing_key), "",
          "A file with a key of Ed25519, which nobody else may open: the library signs what it "
          "saves (docs/encryption.md)."},
         {"recipients", Form::text_list, FIELD(checkpoint.recipients), "",
          "Public keys of age, age1…: checkpoints that the library writes are encrypted for these, "
          "too (docs/encryption.md)."},
         {"recipients_file", Form::text, FIELD(checkpoint.recipients_file), "",
          "A file with more of them, one a line, and comments."},
         {"identity_file", Form::text, FIELD(checkpoint.identity_file), "",
          "The file with the secret key that opens them, for going on from one; its owner alone "
          "may open it."},
         {"identity_secret", Form::text, FIELD(checkpoint.identity_secret), "",
          "In its place the name of one of `secrets` that is given as a file, such as a key that "
          "Vault has wrapped (docs/encryption.md)."},
         {"authentication_key_file", Form::text, FIELD(checkpoint.authentication_key_file), "",
          "The file with the secret that proves who wrote them (autolaunch ckpt keygen)."},
         {"restore_from", Form::text, FIELD(checkpoint.restore_from), "",
          "The checkpoint to start from while there is none in checkpoint_dir: a checkpoint, or a "
          "place that has some, of which the newest; a directory or s3://…. Nothing is written "
          "there."},
         {"model_save_format", Form::text, FIELD(checkpoint.model_save_format), "",
          "safetensors, torch_save, …"},
         {"save_consolidated", Form::boolean, FIELD(checkpoint.save_consolidated), "",
          "Whether the model is also saved as a whole."}}};
}

Section container_section() {
    return {
        "container",
        "The image that ranks run in; autolaunch stays outside (docs/guides/containers.md). "
        "Without "
        "the section they run on the node as it is.",
        false,
        false,
        {{"image", Form::text, FIELD(container.image), "",
          "The image, as the runtime names it: nvcr.io/nvidia/pytorch:25.01-py3 for podman, a file "
          "such as /images/pytorch.sif or docker://… for apptainer, a .sqsh file or the name of a "
          "container for enroot. It must be on each node, or where each node can read it."},
         {"runtime",
          Form::text,
          FIELD(container.runtime),
          "",
          "What starts it. Without it: the first of apptainer, podman and enroot that the node "
          "has. "
          "With pyxis, Slurm starts the whole step in the image, and autolaunch must be in it.",
          {"apptainer", "enroot", "podman", "pyxis"}},
         {"mounts", Form::text_list, FIELD(container.mounts), "",
          "What ranks see of the node besides what they need to run: [/data, /scratch:rw, "
          "/raw:/data/raw:ro]. Read-only unless :rw says otherwise; nothing of your home unless it "
          "is named here."},
         {"digest", Form::text, FIELD(container.digest), "",
          "sha256:… that the image must have; for a file, its SHA-256. A start with another image "
          "is refused."},
         {"options", Form::text_list, FIELD(container.options), "",
          "More options of the runtime's own, given to it as they are: [--security-opt, "
          "seccomp=unconfined]. They are seen in process lists: no secrets."},
         {"cuda_compat", Form::text, FIELD(container.cuda_compat), "",
          "The node's folder of CUDA's compatibility library (package cuda-compat): "
          "/usr/local/cuda-12.8/compat. Ranks find it before the driver's own, so that an image "
          "with "
          "a newer CUDA than the driver knows runs on it. Not used where the driver is newer."},
         switch_of_site("require_digest")}};
}

Section workspace_section() {
    return {
        "workspace",
        "Who may read run directories and checkpoints. Folders that are there keep their mode.",
        false,
        false,
        {{"mode", Form::folder_mode, FIELD(workspace.mode), "",
          "Of folders that are made; files have the same without x. Without it: 0750, less the "
          "umask."},
         {"group", Form::text, FIELD(workspace.group), "",
          "The group, one of yours, that they belong to: folders get the setgid bit, so that all "
          "that is made in them is that group's."},
         {"open_parents", Form::boolean, FIELD(workspace.open_parents), "false",
          "Whether they may be below folders that everybody may write to, without the sticky bit: "
          "anybody could replace them there. For machines that nobody else uses, such as a pod "
          "with an emptyDir."}}};
}

Section storage_section() {
    return {
        "storage",
        "Data that ranks find on their node's own disk (docs/guides/data.md): read from its source "
        "once, and kept there for the jobs that come after.",
        false,
        false,
        {{"scratch", Form::text, FIELD(storage.scratch), "auto",
          "The folder on each node's own disk. auto: storage_management.scratch_space of the "
          "administrator's file, else /var/tmp. What is staged is in autolaunch-UID below it."},
         {"limit",
          Form::size,
          FIELD(storage.limit_bytes),
          "",
          "What may be kept there of all jobs together; what was not used for longest goes first. "
          "Without it: half of its file system.",
          {},
          1},
         {"throttle",
          Form::size,
          FIELD(storage.throttle_bytes),
          "",
          "Bytes a second that a node reads from a source, or copies to a target, at most. Without "
          "it: as fast as it goes.",
          {},
          1},
         {"timeout",
          Form::duration,
          FIELD(storage.timeout),
          "24h",
          "How long staging may take, before ranks start and again when they have ended; and where "
          "nothing comes for a minute, it has failed.",
          {},
          1000},
         {"keep",
          Form::duration,
          FIELD(storage.keep),
          "",
          "How long what was staged is kept after its last use, as autolaunch gc goes by. Without "
          "it: as that is told, 7 days.",
          {},
          1000},
         {"stage_in", Form::stage_in, FIELD(storage.stage_in), "",
          "What is staged before ranks start: {from: /shared/tokens, as: tokens}, a folder or a "
          "file, whose place is in AUTOLAUNCH_DATA_TOKENS then. Or of a server: s3://bucket/key, "
          "s3://bucket/folder/, https://host/file. `verify`: sha256: and 64 digits of a file, or "
          "of a folder the name of a list in it, as sha256sum writes one. `unpack`: true (by its "
          "name), tar (also with gzip or zstd) or zip: ranks get the folder that it holds. "
          "`start`: all "
          "(ranks start once all of it is there) or streaming (they start at once, and find each "
          "file under its name once it is whole)."},
         {"stage_out", Form::stage_out, FIELD(storage.stage_out), "",
          "Folders on each node's own disk that ranks write to, and where their files go when the "
          "job ends: {from: results, to: /shared/results}, whose folder is in "
          "AUTOLAUNCH_OUT_RESULTS. `to` is a folder, or s3://bucket/prefix/. `when`: always "
          "(default), or success of all ranks. `layout`: flat (default), the files of all nodes "
          "side by side, where two of one name and another content are an error; node, a folder a "
          "node. `overwrite`: true replaces files that are there with another content."},
         {"stage_out_time", Form::duration, FIELD(storage.stage_out_time), "0s",
          "How much of a stop's time is kept for stage_out: ranks are asked so much earlier to "
          "stop "
          "before the job's time limit, and have so much less until a scheduler's SIGKILL. Without "
          "it copies have what ranks leave."}}};
}

Section monitoring_section() {
    return {
        "monitoring",
        "Where runs are kept, and what is observed.",
        false,
        false,
        {{"log_path", Form::text, FIELD(monitoring.log_path), "runs",
          "The folder of the run directories."},
         {"slurm_integration", Form::boolean, FIELD(monitoring.slurm_integration), "false",
          "Whether Slurm is asked about the job. Read, without effect in this version."},
         {"resource_tracking", Form::boolean, FIELD(monitoring.resource_tracking), "",
          "Whether each node measures itself while ranks run: GPUs, CPUs, memory, networks, disks "
          "and file systems, and what ranks report, into samples/NODE.jsonl of the run directory "
          "(docs/samples.md). Without it: of jobs that run for longer than 5 s. true: from the "
          "first moment; false: not at all, nor what the keys below ask for."},
         {"interval_seconds", Form::number, FIELD(monitoring.interval_seconds), "",
          "Seconds between two looks at where the ranks run (without it 60; the first comes after "
          "5 s at most), and between two measurements (without it 10; never less than 1)."},
         {"textfile_directory", Form::text, FIELD(monitoring.textfile_directory), "",
          "The folder of node_exporter's textfile collector, on each node's own disk: what was "
          "measured is there as autolaunch_JOB_STEP.prom while the job runs (docs/metrics.md)."},
         {"metrics_listen", Form::text, FIELD(monitoring.metrics_listen), "",
          "Where each node answers Prometheus' GET /metrics: control, its address towards the "
          "other nodes, or an address such as 127.0.0.1. Without it: nowhere. Everybody who can "
          "connect may read it."},
         {"metrics_port",
          Form::whole_number,
          FIELD(monitoring.metrics_port),
          "9842",
          "With metrics_listen: the port; 0 takes one that is free.",
          {},
          0,
          65535},
         {"metrics_targets_directory", Form::text, FIELD(monitoring.metrics_targets_directory), "",
          "With metrics_listen: a folder that Prometheus reads lists of targets from "
          "(file_sd_configs); each node writes its own while the job runs."},
         of_site("system_monitoring"),
         of_site("job_monitoring"),
         of_site("alerting"),
         of_site("alerts"),
         of_site("channels"),
         of_site("dashboards")}};
}

Section restart_section() {
    return {
        "restart",
        "What happens when a rank fails, a node is lost or the job is stopped.",
        false,
        false,
        {{"max_restarts", Form::whole_number, FIELD(restart.max_restarts), "0",
          "How often all ranks are started again after a failure of the program; links, disks and "
          "GPUs have budgets of their own (docs/restarts.md). As --max-restarts, torchrun's: how "
          "often in all."},
         {"grace_period", Form::duration, FIELD(restart.grace_period), "15s",
          "How long a rank may take to end after SIGTERM, before SIGKILL. Left at 15s, it is "
          "longer "
          "where the job's own saves were measured to take longer."},
         {"kill_wait", Form::duration, FIELD(restart.kill_wait), "0s",
          "The time between SIGTERM and SIGKILL of whoever runs the job: in a pod its "
          "terminationGracePeriodSeconds. 0s: AUTOLAUNCH_KILL_WAIT, Slurm's KillWait, or 30s in a "
          "pod."},
         {"stop_signal",
          Form::text,
          FIELD(restart.stop_signal),
          "term",
          "The signal on which the program saves and stops, where it does not stop by itself: usr1 "
          "for Lightning and submitit. SIGTERM follows when two thirds of the time are over.",
          {"term", "usr1", "usr2", "int", "hup"}},
         {"backoff", Form::duration, FIELD(restart.backoff), "0s", "The pause before a restart."},
         {"hang_after",
          Form::hang_after,
          FIELD(restart.hang_after),
          "auto",
          "How long a job may stand still (docs/hangs.md) before it is ended, with the cause hang. "
          "auto: 5m where restarts are wanted and it is sure that nobody will go on, else off. A "
          "time of your own counts also for ranks that are busy and come to no step.",
          {},
          1000},
         {"straggler",
          Form::text,
          FIELD(restart.straggler),
          "warn",
          "What follows when the others wait for a rank in every step (docs/hangs.md). warn: it is "
          "told of. replace: where that lasts, a spare node takes the place of its own, or the job "
          "goes on without it (resource_management.nodes); 3 times in 6 h at most, each node once. "
          "off: nothing.",
          {"warn", "replace", "off"}},
         {"check_nodes", Form::boolean, FIELD(restart.check_nodes), "true",
          "Before the next generation of a job that may lose nodes, after a crash of hardware, "
          "network or unknown cause: those that stay look at their GPUs and for each other, 10 s "
          "at most, and who fails is left out (docs/recovery.md)."},
         {"warm_processes", Form::boolean, FIELD(restart.warm_processes), "false",
          "Beside each rank another process of its command waits in Session::from_environment(), "
          "and takes the rank's place when it has to be started anew: for C++ trainers that use "
          "the library and are slow to start (docs/recovery.md). Python ranks have "
          "trainer.preload."},
         {"on", Form::restart_map, FIELD(restart.on), "",
          "What follows from a cause (docs/causes.md), such as {network: {window: 5 per 6h, delay: "
          "10s, backoff: 2}, crash: {budget: 1}, gpu: {action: stop}}."}}};
}

Key stdio_key() {
    return {
        "stdio",
        Form::text,
        FIELD(logging.stdio),
        "file",
        "What stdout and stderr of ranks are. file: their logs, which they write themselves; pty: "
        "terminals, whose output autolaunch copies to the logs.",
        {"file", "pty"}};
}

Section logging_section() {
    return {"logging",
            "What the console shows. The run directory always has everything.",
            false,
            false,
            {{"console", Form::streams, FIELD(logging.console_default), "all",
              "Which output of ranks is shown."},
             {"local_ranks_filter", Form::number_list, FIELD(logging.local_ranks_filter), "",
              "Show only these local ranks. Without it: all."},
             stdio_key(),
             {"line_buffered", Form::boolean, FIELD(logging.line_buffered), "true",
              "Whether programs are made to write whole lines to their logs: a library is "
              "preloaded into C programs, and variables tell Fortran and Python. Without it: as "
              "they buffer."},
             {"fold", Form::boolean, FIELD(logging.fold), "true",
              "Whether a line that all ranks print is shown once."},
             {"prefix", Form::boolean, FIELD(logging.prefix), "true",
              "Whether lines begin with the rank. Without it the ranks' bytes pass as they are."},
             {"progress", Form::boolean, FIELD(logging.progress), "true",
              "Whether reported steps are shown as a bar."},
             {"quiet", Form::boolean, FIELD(logging.quiet), "false",
              "Whether the lines at the start are left out."}}};
}

Section model_size_section() {
    return {
        "model_size",
        "How large the model is. `autolaunch plan` predicts each rank's memory from it; the "
        "trainer does not see it.",
        false,
        false,
        {{"parameters", Form::count, FIELD(model_size.parameters), "",
          "Parameters of the whole model."},
         {"layers",
          Form::whole_number,
          FIELD(model_size.layers),
          "",
          "Layers, which are gathered one at a time. Without it: the whole model is one.",
          {},
          1,
          1'000'000},
         {"hidden",
          Form::whole_number,
          FIELD(model_size.hidden),
          "",
          "Width of the embedding, which with vocabulary is a unit of its own.",
          {},
          1},
         {"vocabulary",
          Form::whole_number,
          FIELD(model_size.vocabulary),
          "",
          "Rows of the embedding.",
          {},
          1},
         {"optimizer",
          Form::text,
          FIELD(model_size.optimizer),
          "",
          "What is kept for each parameter: 8 bytes, 4, 4 or none. Without it: AdamW's.",
          {"adamw", "lion", "sgd", "none"}},
         {"offload_optimizer", Form::boolean, FIELD(model_size.offload_optimizer), "",
          "Whether masters and the optimizer's state are in the CPU's memory, for ranks on GPUs."},
         {"deterministic", Form::boolean, FIELD(model_size.deterministic), "",
          "Whether gradients are summed in one order, the same on any number of ranks."},
         {"micro_batches",
          Form::whole_number,
          FIELD(model_size.micro_batches),
          "",
          "Micro-batches of a step, each of which reduces its gradients: deterministic sums of "
          "them take memory. "
          "Without it: one.",
          {},
          1,
          1'000'000}}};
}

#undef FIELD

std::vector<Section> make_sections() {
    return {trainer_section(),
            container_section(),
            distributed_section(),
            model_size_section(),
            resource_section(),
            nccl_section(),
            rendezvous_section(),
            slurm_section(),
            kubernetes_section(),
            checkpoint_section(),
            workspace_section(),
            storage_section(),
            monitoring_section(),
            restart_section(),
            logging_section(),
            secrets_section(),
            pipeline_section(),
            sweep_section(),
            section_of_site("vault"),
            section_of_site("security"),
            section_of_site("authentication"),
            section_of_site("authorization"),
            section_of_site("rbac"),
            section_of_site("network_security"),
            section_of_site("data_security"),
            section_of_site("audit"),
            section_of_site("gpu_scheduling"),
            section_of_site("memory_management"),
            section_of_site("storage_management"),
            section_of_site("system_monitoring"),
            section_of_site("job_monitoring"),
            section_of_site("alerting"),
            section_of_site("dashboards"),
            {"model", "The trainer's own.", true},
            {"dataloader", "The trainer's own.", true},
            {"step_scheduler", "The trainer's own.", true},
            {"optimizer", "The trainer's own.", true}};
}

std::string whole_number_expectation(const Key& key) {
    if (key.maximum != Key{}.maximum)
        return "a whole number from " + std::to_string(key.minimum) + " to " +
               std::to_string(key.maximum);
    return "a whole number >= " + std::to_string(key.minimum);
}

std::string choice_expectation(const Key& key) {
    if (key.choices.empty())
        return "text";
    std::string words;
    for (std::size_t i = 0; i < key.choices.size(); ++i) {
        if (i > 0)
            words += i + 1 == key.choices.size() ? " or " : ", ";
        words += key.choices[i];
    }
    return words;
}

}  // namespace

const Key* Section::find(std::string_view key) const {
    const auto found =
        std::find_if(keys.begin(), keys.end(), [&](const Key& known) { return known.name == key; });
    return found == keys.end() ? nullptr : &*found;
}

std::vector<std::string> Section::key_names() const {
    std::vector<std::string> names;
    for (const auto& key : keys)
        names.emplace_back(key.name);
    return names;
}

std::span<const Section> sections() {
    static const std::vector<Section> kSections = make_sections();
    return kSections;
}

const Section* find_section(std::string_view name) {
    const auto all = sections();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const Section& section) { return section.name == name; });
    return found == all.end() ? nullptr : &*found;
}

std::vector<std::string> section_names() {
    std::vector<std::string> names;
    for (const auto& section : sections())
        names.emplace_back(section.name);
    return names;
}

std::span<const std::string_view> sections_to_come() {
    static constexpr std::array<std::string_view, 2> kNames = {"submit", "monitor"};
    return kNames;
}

std::string expectation(const Key& key) {
    switch (key.form) {
        case Form::text:
            return choice_expectation(key);
        case Form::whole_number:
            return whole_number_expectation(key);
        case Form::number:
            return "a number > 0";
        case Form::boolean:
            return "true or false";
        case Form::duration:
            return std::string("a duration such as 15s, 500ms, 2m, 1h, or a number of seconds") +
                   (key.minimum > 0 ? "; at least " + std::to_string(key.minimum / 1000) + "s"
                                    : "");
        case Form::size:
            return std::string("a size such as 80GB, 80GiB, or a number of bytes") +
                   (key.minimum > 0 ? "; at least " + std::to_string(key.minimum) : "");
        case Form::count:
            return "a number such as 124M, 7B or 6_738_415_616";
        case Form::time_limit:
            return "a time limit as Slurm writes it, such as 30, 4:00:00 or 2-12";
        case Form::command:
            return "a list of strings, or one shell line";
        case Form::text_list:
            return "a list of strings";
        case Form::number_list:
            return "a list of whole numbers >= 0";
        case Form::text_map:
            return "a mapping of names to text";
        case Form::nccl_map:
            return "a mapping of NCCL_* names to text";
        case Form::nodes:
            return "a whole number >= 1, or {min: M, max: N, spares: S, group: G}";
        case Form::ranks_per_node:
            return "auto, cpu, gpu or a whole number >= 1";
        case Form::binding:
            return choice_expectation(key) +
                   ", or a list such as [\"0-7,64-71\", numa:1, core:0-3]";
        case Form::streams:
            return "all, stdout, stderr or none";
        case Form::preflight:
            return "true, false or warn";
        case Form::input:
            return "none, all or a rank";
        case Form::preload:
            return "auto, off or a list of Python modules";
        case Form::hang_after:
            return "auto, off, or a duration of at least 1s such as 90s, 10m";
        case Form::wrap_map:
            return "a mapping of ranks (all, or such as \"0,3-5\") to command lines";
        case Form::folder_mode:
            return "a mode such as 0750 or 0700: all for its owner, no writing for the world";
        case Form::restart_map:
            return "a mapping of causes to {budget: 3, window: 3 per 6h, delay: 10s, backoff: 2, "
                   "action: restart, requeue or stop}";
        case Form::tolerations:
            return "a list of {key: nvidia.com/gpu, operator: Exists or Equal, value, effect, "
                   "seconds}";
        case Form::spread:
            return "a label of nodes, such as kubernetes.io/hostname, or a list of {topology_key, "
                   "max_skew, when_unsatisfiable}";
        case Form::resource_map:
            return "a mapping of resources to whole numbers, such as {rdma/hca_shared_devices: 1}";
        case Form::hugepages:
            return "a mapping of sizes of pages to sizes, such as {2Mi: 4GiB}";
        case Form::volumes:
            return "a list of {mount: /data, claim, host_path, nfs, config_map, secret or "
                   "empty_dir, sub_path, read_only}";
        case Form::secret_key:
            return "SECRET/KEY";
        case Form::secret_keys:
            return "a mapping of names of `secrets` to SECRET/KEY";
        case Form::stage_in:
            return "a list of {from: /shared/data or s3://bucket/folder/, as: NAME, verify: "
                   "sha256:… "
                   "or SHA256SUMS}";
        case Form::stage_out:
            return "a list of {from: NAME, to: /shared/results or s3://bucket/prefix/, when: "
                   "always or success, layout: flat or node, overwrite}";
        case Form::tiers:
            return "a list of {place: /shared/run7, every: 30m, keep: 3, keep_every, keep_best, "
                   "bandwidth: 500MB}";
        case Form::stripe:
            return "auto, or {count: 8, size: 4MiB} (count: all for all of them)";
        case Form::of_site:
            return key.choices.empty() ? "a mapping" : choice_expectation(key);
        case Form::free_form:
            return "anything";
    }
    return {};
}

}  // namespace autolaunch::launcher
