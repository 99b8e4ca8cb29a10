// What kubectl gets for a spec: whole objects against files, what follows from single keys, the
// spec as pods read it, and what is refused or told.

#include "manifests/manifests.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "manifests/pod_facts.hpp"
#include "manifests/pod_spec.hpp"
#include "manifests/tree.hpp"
#include "manifests/yaml_text.hpp"
#include "spec/yaml_reader.hpp"
#include "spec_files.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace manifests_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

const std::string kData = std::string(AUTOLAUNCH_SOURCE_DIR) + "/tests/data/manifests/";

// The least that pods need; `more` is indented below `kubernetes`.
std::string spec_of(const std::string& sections, const std::string& more = "") {
    return "trainer: {command: [./train]}\nkubernetes:\n  image: i:1\n  job_key: k/key\n" + more +
           sections;
}

Manifests made_of(const std::string& text, ManifestKind kind = ManifestKind::kubernetes,
                  std::map<std::string, std::string> environment = {}) {
    const SpecResult read = load_text(text, {}, std::move(environment));
    REQUIRE_MESSAGE(read.errors.empty(), only_line(read));
    return manifests({.kind = kind, .read = read});
}

std::vector<Value> documents(const std::string& yaml) {
    std::vector<Value> values;
    std::size_t from = 0;
    while (from < yaml.size()) {
        const std::size_t end = std::min(yaml.find("\n---\n", from), yaml.size());
        std::vector<SpecError> errors;
        values.push_back(read_yaml(yaml.substr(from, end - from + 1), "m.yaml", errors));
        REQUIRE(errors.empty());
        from = end + 5;
    }
    return values;
}

/// "spec.template.spec.containers.0.image" of the last object: its text, or what it is.
std::string at(const std::string& yaml, const std::string& path, int document = -1) {
    const auto all = documents(yaml);
    Value value = document < 0 ? all.back() : all.at(static_cast<std::size_t>(document));
    for (const std::string& word : split(path, '/')) {
        if (value.is_sequence()) {
            const std::size_t index = std::stoul(word);
            if (index >= value.items.size())
                return "absent";
            value = Value(value.items[index]);
            continue;
        }
        const Entry* entry = value.find(word);
        if (entry == nullptr)
            return "absent";
        value = Value(entry->value);
    }
    return value.is_scalar() ? value.text : describe(value);
}

const std::string kPod = "spec/template/spec/";
const std::string kContainerPath = kPod + "containers/0/";

std::string in_pod(const Manifests& made, const std::string& path) {
    return at(made.yaml, kPod + path);
}

std::vector<std::string> error_lines(const Manifests& made) {
    std::vector<std::string> lines;
    for (SpecError error : made.errors) {
        error.file = error.file.substr(error.file.rfind('/') + 1);
        lines.push_back(to_string(error));
    }
    return lines;
}

std::string only_error(const Manifests& made) {
    const auto lines = error_lines(made);
    return lines.size() == 1 ? lines[0] : "errors: " + join(lines, " | ");
}

bool is_noted(const Manifests& made, const std::string& text) {
    return std::any_of(made.notes.begin(), made.notes.end(), [&](const std::string& note) {
        return note.find(text) != std::string::npos;
    });
}

SpecResult reread(const SpecResult& read) {
    const PodFacts facts = pod_facts({.kind = ManifestKind::kubernetes, .read = read});
    return load_text(spec_of_pods(read, facts));
}

}  // namespace

TEST_CASE("whole objects are those of tests/data/manifests") {
    const SpecResult read =
        load_spec({.file = kData + "train.yaml", .overrides = {}, .environment = {}});
    REQUIRE_MESSAGE(read.errors.empty(), only_line(read));
    for (const char* kind : {"kubernetes", "jobset", "volcano"}) {
        CAPTURE(kind);
        const Manifests made = manifests({.kind = *manifest_kind_from(kind), .read = read});
        CHECK(error_lines(made).empty());
        CHECK(made.yaml == read_file(kData + kind + ".yaml"));
    }
    CHECK(!manifest_kind_from("slurm"));
    CHECK(manifest_kinds() == "kubernetes, jobset, volcano");
}

TEST_CASE("an indexed Job has a number of pods, a headless Service, and a name for its hosts") {
    const Manifests made = made_of(spec_of("resource_management: {nodes: 3}\n"));
    CHECK(at(made.yaml, "kind") == "Job");
    CHECK(at(made.yaml, "spec/completionMode") == "Indexed");
    CHECK(at(made.yaml, "spec/completions") == "3");
    CHECK(at(made.yaml, "spec/parallelism") == "3");
    CHECK(at(made.yaml, "metadata/name") == "train");
    CHECK(in_pod(made, "subdomain") == "train");
    CHECK(in_pod(made, "restartPolicy") == "Never");  // podFailurePolicy takes no other
    CHECK(at(made.yaml, "kind", 1) == "Service");
    CHECK(at(made.yaml, "metadata/name", 1) == "train");
    CHECK(at(made.yaml, "spec/clusterIP", 1) == "None");
    CHECK(at(made.yaml, "spec/publishNotReadyAddresses", 1) == "true");
    CHECK(at(made.yaml, "kind", 0) == "ConfigMap");
    CHECK(at(made.yaml, "immutable", 0) == "true");
}

TEST_CASE("75 and evictions count for nothing, lost nodes do, a program's failure ends the Job") {
    const Manifests made = made_of(spec_of("resource_management: {nodes: 3}\n", "  retries: 2\n"));
    const std::string rules = "spec/podFailurePolicy/rules/";
    CHECK(at(made.yaml, rules + "0/action") == "Ignore");
    CHECK(at(made.yaml, rules + "0/onPodConditions/0/type") == "DisruptionTarget");
    CHECK(at(made.yaml, rules + "1/action") == "Ignore");
    CHECK(at(made.yaml, rules + "1/onExitCodes/operator") == "In");
    CHECK(at(made.yaml, rules + "1/onExitCodes/values/0") == "75");
    CHECK(at(made.yaml, rules + "1/onExitCodes/containerName") == "autolaunch");
    CHECK(at(made.yaml, rules + "2/action") == "FailJob");
    CHECK(at(made.yaml, rules + "2/onExitCodes/operator") == "NotIn");
    std::vector<std::string> counted;
    for (int i = 0; i < 6; ++i)
        counted.push_back(at(made.yaml, rules + "2/onExitCodes/values/" + std::to_string(i)));
    CHECK(join(counted, ",") == "68,69,71,75,137,143");
    CHECK(at(made.yaml, "spec/backoffLimit") == "6");  // each try may lose all three pods
    CHECK(at(made.yaml, "spec/podReplacementPolicy") == "Failed");
    CHECK(at(made.yaml, "spec/successPolicy") == "absent");
    CHECK(at(made_of(spec_of("", "  retries: 0\n")).yaml, "spec/backoffLimit") == "0");
}

TEST_CASE("a job that may lose pods is not failed by them, and succeeds without them") {
    const Manifests made =
        made_of(spec_of("resource_management: {nodes: {min: 2, max: 4, spares: 1}}\n"));
    CHECK(at(made.yaml, "spec/completions") == "5");
    CHECK(at(made.yaml, "spec/backoffLimit") == "20");
    CHECK(at(made.yaml, "spec/successPolicy/rules/0/succeededIndexes") == "0");
    CHECK(at(made.yaml, "spec/successPolicy/rules/1/succeededCount") == "4");
    CHECK(at(made.yaml, "data/train.yaml", 0).find("spares: 1") != std::string::npos);
    const Manifests volcano =
        made_of(spec_of("resource_management: {nodes: {min: 2, max: 4}}\n"), ManifestKind::volcano);
    CHECK(at(volcano.yaml, "spec/minAvailable") == "2");
    CHECK(at(volcano.yaml, "spec/tasks/0/replicas") == "4");
    CHECK(at(volcano.yaml, "spec/policies/1/event") == "TaskCompleted");
}

TEST_CASE("Volcano begins anew after 75, and after more where that is counted") {
    const auto exit_codes = [](const std::string& yaml) {
        std::string codes;
        for (int i = 0; at(yaml, "spec/policies/" + std::to_string(i) + "/exitCode") != "absent";
             ++i) {
            CHECK(at(yaml, "spec/policies/" + std::to_string(i) + "/action") == "RestartJob");
            codes += at(yaml, "spec/policies/" + std::to_string(i) + "/exitCode") + ' ';
        }
        return codes;
    };
    const std::string nodes = "resource_management: {nodes: 2}\n";
    const Manifests free = made_of(spec_of(nodes), ManifestKind::volcano);
    CHECK(exit_codes(free.yaml) == "75 ");
    CHECK(at(free.yaml, "spec/maxRetry") == "2147483647");
    CHECK(at(free.yaml, "spec/policies/1/event") == "PodEvicted");
    CHECK(at(free.yaml, "spec/policies/2/action") == "TerminateJob");
    CHECK(!is_noted(free, "retries"));
    const Manifests counted = made_of(spec_of(nodes, "  retries: 4\n"), ManifestKind::volcano);
    CHECK(exit_codes(counted.yaml) == "75 68 69 71 137 143 ");
    CHECK(at(counted.yaml, "spec/maxRetry") == "4");
    CHECK(at(counted.yaml, "spec/policies/7/event") == "PodFailed");
    CHECK(at(counted.yaml, "spec/plugins/svc/0") == "--publish-not-ready-addresses=true");
    CHECK(at(counted.yaml, "spec/minAvailable") == "2");
}

TEST_CASE("one pod says that it is alone, and needs no key") {
    const std::string text = "trainer: {command: [./train]}\nkubernetes: {image: i}\n";
    const Manifests made = made_of(text);
    CHECK(error_lines(made).empty());
    CHECK(at(made.yaml, kContainerPath + "command/1") == "--nnodes=1");
    CHECK(at(made.yaml, kContainerPath + "env") == "absent");
    CHECK(only_error(made_of(text + "resource_management: {nodes: 2}\n")) ==
          "t.yaml:2:1: kubernetes.job_key: is needed: 2 pods prove by it that they are of one job; "
          "make it by `openssl rand -hex 32 | kubectl create secret generic train-key "
          "--from-file=key=/dev/stdin`, and add kubernetes: {job_key: train-key/key}");
}

TEST_CASE("nodes and GPUs are those of Slurm where nothing else is said") {
    const Manifests made = made_of(spec_of("slurm_config: {nodes: 2, gpus_per_node: 4, qos: x}\n"));
    CHECK(at(made.yaml, "spec/completions") == "2");
    CHECK(at(made.yaml, kContainerPath + "resources/limits/nvidia.com~gpu") == "absent");
    CHECK(made.yaml.find("nvidia.com/gpu: \"4\"") != std::string::npos);
    CHECK(made.yaml.find("      nodes: 2\n") != std::string::npos);
    CHECK(is_noted(made, "of slurm_config is not carried over: qos (kubernetes.priority_class)"));
    CHECK(!is_noted(made, "nodes"));
}

TEST_CASE("pods run without root, with a /dev/shm of memory, and lock memory for RDMA alone") {
    const Manifests plain = made_of(spec_of("", "  memory: 8GiB\n"));
    CHECK(in_pod(plain, "securityContext/runAsNonRoot") == "true");
    CHECK(in_pod(plain, "securityContext/runAsUser") == "1000");
    CHECK(in_pod(plain, "securityContext/seccompProfile/type") == "RuntimeDefault");
    CHECK(in_pod(plain, "containers/0/securityContext/allowPrivilegeEscalation") == "false");
    CHECK(in_pod(plain, "containers/0/securityContext/capabilities/drop/0") == "ALL");
    CHECK(in_pod(plain, "containers/0/securityContext/capabilities/add") == "absent");
    CHECK(in_pod(plain, "volumes/1/emptyDir/medium") == "Memory");
    CHECK(in_pod(plain, "volumes/1/emptyDir/sizeLimit") == "4Gi");
    CHECK(in_pod(plain, "containers/0/volumeMounts/1/mountPath") == "/dev/shm");
    CHECK(in_pod(plain, "automountServiceAccountToken") == "false");
    CHECK(!is_noted(plain, "IPC_LOCK"));
    const Manifests rdma = made_of(spec_of("", "  rdma: {rdma/hca: 2}\n"));
    CHECK(in_pod(rdma, "containers/0/securityContext/capabilities/add/0") == "IPC_LOCK");
    CHECK(is_noted(rdma, "IPC_LOCK"));
    CHECK(in_pod(rdma, "volumes/1/emptyDir/sizeLimit") == "absent");
}

TEST_CASE("requests are the limits, of GPUs or of parts of them") {
    const Manifests made =
        made_of(spec_of("resource_management: {gpus_per_node: 2}\n",
                        "  gpu_resource: nvidia.com/mig-1g.10gb\n  cpus: 2.5\n"));
    for (const char* kind : {"limits", "requests"}) {
        const auto documents_of = documents(made.yaml);
        CHECK(at(made.yaml, kContainerPath + "resources/" + kind + "/cpu") == "2500m");
    }
    CHECK(made.yaml.find("limits:\n            cpu: \"2500m\"\n"
                         "            nvidia.com/mig-1g.10gb: \"2\"\n") != std::string::npos);
    CHECK(made.yaml.find("requests:\n            cpu: \"2500m\"\n"
                         "            nvidia.com/mig-1g.10gb: \"2\"\n") != std::string::npos);
}

TEST_CASE("pods get the time that a save takes, or that the spec says") {
    RestartSpec restart;
    CHECK(grace_of_pods(restart, 0s, {}) == 30s);
    CHECK(grace_of_pods(restart, 0s, 100s) == 123s);  // 100 s, a fifth, and 3 s for the end
    CHECK(grace_of_pods(restart, 60s, {}) == 78s);    // copies of storage.stage_out behind the 15 s
    restart.grace_period = 2min;
    CHECK(grace_of_pods(restart, 0s, {}) == 123s);
    restart.kill_wait = 45s;
    CHECK(grace_of_pods(restart, 0s, 100s) == 45s);
    const Manifests made = made_of(spec_of("restart: {grace_period: 60s}\n"));
    CHECK(in_pod(made, "terminationGracePeriodSeconds") == "63");
    CHECK(at(made.yaml, "data/train.yaml", 0).find("kill_wait: \"63s\"") != std::string::npos);
}

TEST_CASE("the spec in the pods reads as the one that was given") {
    const std::string text =
        "trainer:\n  command: [./t, \"$${HOME}\", 'a: b', \"#c\", \"-\", \"\"]\n"
        "  env: {A: \"no\", B: on, C: ~, D: 0x1F, E: \"\", \"on\": x}\n"
        "  config: {a: 1_000, b: \"1\", c: true, d: \"true\", e: 017, f: 1e-4, g: ~, h: [[], {}, "
        "[[1]]],\n"
        "           i: \"x\\ty\\u2028\\x07\", j: \"${model.width}\", k: \"two\\n\\nlines\\n\", l: "
        "ünï, m: 2026-01-31, n: .5}\n"
        "model: {_target_: x.y, w: \"$${HOME}\", s: \"${NUMBER}\", t: \"3\"}\n"
        "distributed: {mixed_precision: no, backend: \"${NUMBER}\"}\n"
        "checkpoint: {enabled: \"${YES}\", every_steps: \"${NUMBER}\", checkpoint_dir: 2024_01}\n"
        "resource_management: {nodes: {min: \"${NUMBER}\", max: 4}, ranks_per_node: "
        "\"${NUMBER}\"}\n"
        "optimizer:\n  t: ${NUMBER}\nlogging: {quiet: true}\n";
    const SpecResult read =
        load_text(text, {"model.more={a: [1, \"2\"]}"}, {{"NUMBER", "2"}, {"YES", "true"}});
    REQUIRE_MESSAGE(read.errors.empty(), only_line(read));
    const SpecResult again = reread(read);
    REQUIRE_MESSAGE(again.errors.empty(), only_line(again));
    CHECK(again.spec.trainer_config == read.spec.trainer_config);
    CHECK(again.spec.trainer.command == read.spec.trainer.command);
    CHECK(again.spec.trainer.env == read.spec.trainer.env);
    CHECK(again.spec.resources.nodes == 2);
    CHECK(again.spec.resources.most_nodes == 4);
    CHECK(again.spec.resources.ranks_per_node == 2);
    CHECK(again.spec.checkpoint.enabled);
    CHECK(again.spec.logging.quiet);
    CHECK(again.spec.restart.kill_wait == 30s);
    CHECK(again.spec.kubernetes.image.empty());
}

TEST_CASE("secrets are files of the cluster's Secrets, and who gets them stays") {
    const SpecResult read = load_text(spec_of(
        "secrets: {A: {file: ~/a, ranks: 0}, B: {command: [pass], as: file}, C: {vault: "
        "kv/x#k}, D: {file: /keys/d}, E: {vault_transit: e}}\n",
        "  secrets: {A: s/a, B: s/b, E: s/e}\n  volumes: [{mount: /keys, secret: keys}]\n"));
    REQUIRE_MESSAGE(read.errors.empty(), only_line(read));
    const auto& again = reread(read).spec.given_secrets;
    REQUIRE(again.size() == 5);
    CHECK(again[0].file == "/etc/autolaunch-secrets/A");
    CHECK(again[0].ranks == "0");
    CHECK(again[1].source == SecretSpec::Source::file);
    CHECK(again[1].as == SecretSpec::As::file);
    CHECK(again[2].source == SecretSpec::Source::vault);
    CHECK(again[3].file == "/keys/d");
    CHECK(again[4].source == SecretSpec::Source::vault_transit);
    CHECK(again[4].file == "/etc/autolaunch-secrets/E");
    const Manifests made = manifests({.kind = ManifestKind::jobset, .read = read});
    CHECK(join(error_lines(made), " | ") == "");
    CHECK(is_noted(made, "secrets.C comes from Vault"));
}

TEST_CASE("secrets that the pods would not have are errors that say what to write") {
    CHECK(only_error(made_of(spec_of("secrets:\n  A: {file: ~/a}\n"))) ==
          "t.yaml:6:3: secrets.A: ~/a is a file here and in no volume of the pods; name the Secret "
          "of the cluster that has it: kubernetes: {secrets: {A: SECRET/KEY}}, made by `kubectl "
          "create secret generic SECRET --from-file=KEY=~/a`");
    CHECK(only_error(made_of(spec_of("secrets:\n  A: {command: [pass]}\n"))) ==
          "t.yaml:6:3: secrets.A: a command of this machine gives it, and none in the pods; name "
          "the Secret of the cluster that has it: kubernetes: {secrets: {A: SECRET/KEY}}, made by "
          "`COMMAND | kubectl create secret generic SECRET --from-file=KEY=/dev/stdin`");
    CHECK(only_error(made_of(spec_of("secrets: {HF_TOKEN: {file: a}}\n",
                                     "  secrets: {HF_TOKEN: h/t, HF_TOKN: h/t}\n"))) ==
          "t.yaml:5:28: kubernetes.secrets.HF_TOKN: `secrets` has no HF_TOKN; did you mean "
          "\"HF_TOKEN\"?");
}

TEST_CASE("no value of a secret gets into the objects") {
    const char* const kRefused = "holds a secret, and the spec travels as a ConfigMap";
    for (const std::string section :
         {"model: {api_key: 0123456789abcdef}\n", "model: {x: hf_abcdefghijklmnopqrstuvwxyz0123}\n",
          "model: {url: \"${DB_PASSWORD}\"}\n", "nccl: {env: {NCCL_TOKEN: hunter2hunter2}}\n",
          "logging: {console: all}\nmodel: [--token, hunter2hunter2]\n"}) {
        CAPTURE(section);
        const Manifests made = made_of(spec_of(section), ManifestKind::kubernetes,
                                       {{"DB_PASSWORD", "hunter2hunter2"}});
        CHECK(only_error(made).find(kRefused) != std::string::npos);
    }
    // Names of files and of secrets are none.
    CHECK(error_lines(made_of(spec_of("checkpoint: {signing_key: /keys/k, recipients: []}\n"
                                      "model: {pad_token: x, max_tokens: 5}\n")))
              .empty());
    CHECK(only_error(made_of(spec_of("", "  labels: {a: hf_abcdefghijklmnopqrstuvwxyz0123}\n")))
              .find(kRefused) != std::string::npos);
    // A value that a variable here has, written out.
    SpecResult read = load_text(spec_of("model: {url: \"db/hunter2hunter2\"}\n"));
    read.spec.secrets = {"hunter2hunter2"};
    CHECK(only_error(manifests({.kind = ManifestKind::volcano, .read = read})).find(kRefused) !=
          std::string::npos);
}

TEST_CASE("what is missing or refused by Kubernetes is told at its line") {
    struct Case {
        std::string text, message;
    };
    const std::string ok = "trainer: {command: [x]}\n";
    const std::vector<Case> cases = {
        {ok,
         "t.yaml:1:1: kubernetes.image: is needed: the image that has the trainer and "
         "autolaunch; add kubernetes: {image: registry.example.org/train:1}"},
        {"kubernetes: {image: i}\n",
         "t.yaml:1:1: trainer.command: is needed: the program that the "
         "pods run; add trainer: {command: [python3, train.py]}"},
        {ok + "kubernetes: {image: i, name: Train_1}\n",
         "t.yaml:2:30: kubernetes.name: \"Train_1\" cannot be the name of hosts: a small letter, "
         "then at most 54 more, digits or dashes; such as \"train-1\""},
        {ok + "kubernetes: {image: i}\nresource_management: {ranks_per_node: gpu}\n",
         "t.yaml:3:1: resource_management.gpus_per_node: is needed: ranks_per_node is gpu, and a "
         "pod has the GPUs that it asks for and no others"},
        {ok + "kubernetes: {image: i, hugepages: {2Mi: 2MiB}}\n",
         "t.yaml:2:35: kubernetes.hugepages: is refused by Kubernetes in pods that ask for neither "
         "memory nor CPUs; add kubernetes.memory"},
        {ok + "kubernetes: {image: i, memory: 1GiB, shm_size: 2GiB}\n",
         "t.yaml:2:48: kubernetes.shm_size: is more than kubernetes.memory, as which it counts: "
         "filling it would end the pod"},
        {ok + "kubernetes: {image: i, labels: {a: \"b c\"}}\n",
         "t.yaml:2:32: kubernetes.labels: a: \"b c\" is no value of a label: letters, digits, "
         "dashes, dots and underscores, at most 63"},
        {ok + "kubernetes: {image: i, volumes: [{mount: /dev/shm, claim: x}]}\n",
         "t.yaml:2:33: kubernetes.volumes: /dev/shm is where autolaunch mounts its own: "
         "kubernetes.shm_size"},
        {ok + "kubernetes: {image: i}\nrendezvous: {secret_file: k}\n",
         "t.yaml:3:27: rendezvous.secret_file: k is in no volume of the pods; name a Secret of the "
         "cluster as kubernetes.job_key, or mount one as kubernetes.volumes"},
    };
    for (const Case& each : cases) {
        CAPTURE(each.text);
        CHECK(only_error(made_of(each.text)) == each.message);
    }
}

TEST_CASE("the section's own mistakes are found as those of any other") {
    const auto line = [](const std::string& key) {
        return only_line(load_text("kubernetes: {" + key + "}\n"));
    };
    CHECK(line("imge: x") ==
          "t.yaml:1:14: kubernetes.imge: unknown key; did you mean \"image\"? (expects text)");
    CHECK(line("tolerations: [{kee: x}]") ==
          "t.yaml:1:29: kubernetes.tolerations[0].kee: unknown key; did you mean \"key\"?");
    CHECK(line("tolerations: [{effect: Never}]") ==
          "t.yaml:1:37: kubernetes.tolerations[0].effect: expected NoSchedule or PreferNoSchedule "
          "or NoExecute; found \"Never\"");
    CHECK(line("tolerations: [{key: a, seconds: 3}]") ==
          "t.yaml:1:28: kubernetes.tolerations[0]: seconds goes with effect: NoExecute alone");
    CHECK(line("volumes: [{claim: x}]") ==
          "t.yaml:1:24: kubernetes.volumes[0]: says not where it is in the pods: add mount");
    CHECK(line("volumes: [{mount: /x, claim: x, nfs: \"a:/b\"}]") ==
          "t.yaml:1:24: kubernetes.volumes[0]: has claim and nfs; it is one of them");
    CHECK(line("volumes: [{mount: /x, nfs: a}]") ==
          "t.yaml:1:41: kubernetes.volumes[0].nfs: expected SERVER:/PATH; found \"a\"");
    CHECK(line("rdma: {hca: 1}") ==
          "t.yaml:1:21: kubernetes.rdma.hca: is no name of a resource, "
          "such as rdma/hca_shared_devices");
    CHECK(line("hugepages: {2Mi: 3MiB}") ==
          "t.yaml:1:31: kubernetes.hugepages.2Mi: is no whole number of pages of 2Mi");
    CHECK(line("hugepages: {2MB: 2MB}") ==
          "t.yaml:1:26: kubernetes.hugepages.2MB: is no size of a page, such as 2Mi or 1Gi");
    CHECK(line("job_key: key") ==
          "t.yaml:1:23: kubernetes.job_key: expected SECRET/KEY; found ***");
    CHECK(line("secrets: {A: hunter2}") ==
          "t.yaml:1:27: kubernetes.secrets.A: expected SECRET/KEY, a Secret of the cluster and a "
          "key in it");
    CHECK(line("run_as_user: 0") ==
          "t.yaml:1:27: kubernetes.run_as_user: expected a whole number "
          ">= 1; found \"0\"");
    CHECK(line("topology_spread: [{max_skew: 2}]") ==
          "t.yaml:1:32: kubernetes.topology_spread[0]: says not over what: add topology_key, such "
          "as kubernetes.io/hostname");
}

TEST_CASE("what is lost with the pods is told") {
    const std::string gone =
        "checkpoint: {enabled: true, checkpoint_dir: /ckpt}\n"
        "monitoring: {log_path: /logs}\n";
    const Manifests lost = made_of(spec_of(gone));
    CHECK(is_noted(lost, "checkpoints in /ckpt are gone with their pod"));
    CHECK(is_noted(lost, "monitoring.log_path /logs is gone with its pod"));
    const Manifests kept = made_of(spec_of(
        gone, "  volumes: [{mount: /ckpt, claim: c}, {mount: /logs, claim: c, sub_path: l}]\n"));
    CHECK(kept.notes.empty());
    CHECK(!is_noted(made_of(spec_of("checkpoint: {enabled: true, checkpoint_dir: s3://b/c}\n")),
                    "checkpoints"));
    const Manifests own = made_of(spec_of(""));
    CHECK(is_noted(own, "run directories are in an emptyDir, /runs"));
    const Manifests relative = made_of(spec_of("monitoring: {log_path: runs}\n"));
    CHECK(is_noted(relative, "run directories are in an emptyDir, /runs"));
    CHECK(at(relative.yaml, "data/train.yaml", 0).find("log_path: /runs") != std::string::npos);
    CHECK(at(own.yaml, "data/train.yaml", 0).find("open_parents: true") != std::string::npos);
    CHECK(is_noted(made_of(spec_of("", "  volumes: [{mount: /a, host_path: /a}]\n")),
                   "\"baseline\""));
    CHECK(is_noted(made_of(spec_of("", "  volumes: [{mount: /a, nfs: \"n:/a\"}]\n")), "has nfs"));
    CHECK(is_noted(made_of(spec_of("rendezvous: {address: head}\n")), "rendezvous.address"));
    CHECK(is_noted(
        made_of(spec_of("trainer.x: {_target_: y}\n", "  retries: 1\n"), ManifestKind::volcano),
        "kubernetes.retries counts 75"));
}

TEST_CASE("names of jobs become names of hosts") {
    JobSpec spec;
    CHECK(derived_name(spec) == "train");
    spec.trainer.command = {"/usr/bin/python3.11", "-u", "/x/Train_GPT.py", "--a"};
    CHECK(derived_name(spec) == "train-gpt");
    spec.trainer.command = {"python3", "-m", "pkg.finetune"};
    CHECK(derived_name(spec) == "pkg-finetune");
    spec.trainer.command = {"python3", "/x/run"};
    CHECK(derived_name(spec) == "train");
    spec.trainer.command = {"/bin/sh", "-c", "x"};
    CHECK(derived_name(spec) == "train");
    spec.trainer.module = "pkg.train";
    CHECK(derived_name(spec) == "pkg-train");
    spec.slurm.job_name = "7B (second try)";
    CHECK(derived_name(spec) == "job-7b-second-try");
}

TEST_CASE("quantities are those of Kubernetes") {
    CHECK(quantity_of_bytes(std::int64_t{64} << 30) == "64Gi");
    CHECK(quantity_of_bytes(1536 << 20) == "1536Mi");
    CHECK(quantity_of_bytes(1000) == "1000");
    CHECK(quantity_of_cpus(8) == "8");
    CHECK(quantity_of_cpus(0.5) == "500m");
}

TEST_CASE("YAML keeps text text, whoever reads it") {
    const Value root =
        MapNode()
            .text("a", "yes")
            .text("b", "1e3")
            .text("y", "x\n")
            .text("c", "a\nb\n")
            .text("d", " a\nb\n")
            .text("e", "\xC3\xBC\xF0\x9F\x9A\x80\x01")
            .add("f", list_node({list_node({text_leaf("x"), number_leaf(2)}),
                                 MapNode().boolean("g", true), MapNode(), list_node({})}));
    CHECK(yaml_text(root) ==
          "a: \"yes\"\nb: \"1e3\"\n\"y\": \"x\\n\"\nc: |\n  a\n  b\nd: \" a\\nb\\n\"\n"
          "e: \"\\xfc\\U0001f680\\x01\"\nf:\n- - x\n  - 2\n- g: true\n- {}\n- "
          "[]\n");
    CHECK(yaml_text(Value()) == "{}\n");
}

}  // namespace manifests_test
