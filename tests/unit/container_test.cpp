// What ranks run in: the spec's words, the choice, and the command around each rank's, by runtime.
#include "containers/choose_container.hpp"
#include "containers/container_argv.hpp"
#include "containers/container_facts.hpp"
#include "containers/container_probe.hpp"
#include "containers/image_digest.hpp"
#include "doctor/container_findings.hpp"
#include "generation/contained_process.hpp"
#include "generation/contained_ranks.hpp"
#include "spec/container_words.hpp"
#include "spec_files.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

namespace container_test {

using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

const std::string kDigest =
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";  // of no bytes

ContainerFacts node_with(std::vector<std::string> programs) {
    ContainerFacts facts;
    for (const std::string& name : programs)
        facts.programs[name] = "/usr/bin/" + name;
    facts.open_files = "1024:4096";
    facts.processes = "-1:-1";
    return facts;
}

ContainerNeeds needs_of(const std::string& runtime, const std::string& image) {
    ContainerNeeds needs{};
    needs.spec.image = image;
    needs.spec.runtime = runtime;
    needs.spec.mounts = {"/data", "/scratch:rw", "/raw:/data/raw"};
    needs.run_dir = "/scratch/runs/1";
    needs.workdir = "/home/me/job";
    return needs;
}

ContainerStart start_of_rank() {
    return {.environment = {"HOME=/home/me", "PATH=/usr/bin", "RANK=0", "TOKEN=very secret",
                            "BASH_FUNC_ml%%=() { :; }", "LD_LIBRARY_PATH=/opt/lib"},
            .binds = {{"/run/user/1/a", "/run/user/1/a", true, "the agent's sockets"}},
            .name = "a-0-0",
            .label = "a",
            .pid_file = "/run/user/1/a/p",
            .has_input = false};
}

std::string line_of(const ContainerChoice& choice, ContainerStart start = start_of_rank()) {
    std::string line;
    for (const std::string& word : container_argv(choice, start, {"python3", "train.py"}))
        line += (line.empty() ? "" : " ") + word;
    return line;
}

std::string error_of(const ContainerNeeds& needs, const ContainerFacts& facts) {
    try {
        choose_container(needs, facts);
        return "no error";
    } catch (const Error& error) {
        return error.what();
    }
}

bool has(const std::vector<std::string>& list, const std::string& word) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

TEST_CASE("mounts are read-only unless they say rw") {
    CHECK(container_mount_from("/data") == ContainerMount{"/data", "/data", false});
    CHECK(container_mount_from("/data/:rw") == ContainerMount{"/data", "/data", true});
    CHECK(container_mount_from("/a:/b") == ContainerMount{"/a", "/b", false});
    CHECK(container_mount_from("/a:/b:ro") == ContainerMount{"/a", "/b", false});
    CHECK(container_mount_from("/a:/b:rw") == ContainerMount{"/a", "/b", true});
    for (const char* wrong : {"", "/", "data", "/a:b", "/a:/b:/c", "/a:/b:rx", "/a b", "/a,b",
                              "/a/../b", "/a/..", ":rw", "/a:", "/a\n:/b"})
        CHECK_MESSAGE(!container_mount_from(wrong), wrong);
}

TEST_CASE("every further place of checkpoints is mounted, to be written to") {
    ContainerNeeds needs = needs_of("podman", "a");
    needs.checkpoint_dir = "/nvme/checkpoints";
    needs.tier_dirs = {"/shared/run7", "/archive/run7"};
    const std::string line = line_of(choose_container(needs, node_with({"podman", "crun"})));
    for (const char* place : {"/nvme/checkpoints", "/shared/run7", "/archive/run7"})
        CHECK(line.find(fmt::format("--volume={0}:{0}:rw", place)) != std::string::npos);
}

TEST_CASE("versions of NVIDIA's driver and of the compatibility library, from their files") {
    CHECK(nvidia_driver_in("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\n"
                           "GCC version:  gcc version 12.2.0\n") == "550.54.15");
    CHECK(nvidia_driver_in("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  "
                           "Release Build  (root@a)\n") == "560.35.03");
    CHECK(nvidia_driver_in("").empty());
    CHECK(compat_version_in("libcuda.so.560.35.05") == "560.35.05");
    for (const char* other :
         {"libcuda.so.1", "libcuda.so", "libcudart.so.12.1", "libcuda.so.1.x", ""})
        CHECK_MESSAGE(compat_version_in(other).empty(), other);
}

TEST_CASE("CUDA's compatibility library comes before the image's own, where the driver is older") {
    for (const char* runtime : {"podman", "apptainer", "enroot"}) {
        CAPTURE(runtime);
        ContainerNeeds needs = needs_of(runtime, "/i");
        ContainerFacts facts = node_with({runtime, "crun"});
        needs.spec.cuda_compat = "/usr/local/cuda-12.8/compat";
        CHECK(error_of(needs, facts) ==
              "container.cuda_compat: /usr/local/cuda-12.8/compat on this node has no libcuda.so.1 "
              "of a version");
        facts.cuda_compat = "570.86.15";
        for (const char* driver : {"535.104.05", "570.86.9", ""}) {
            facts.nvidia_driver = driver;
            const ContainerChoice choice = choose_container(needs, facts);
            CHECK(choice.cuda_compat == "/run/autolaunch/cuda-compat");
            const std::string line = line_of(choice);
            CHECK(line.find("/usr/local/cuda-12.8/compat:/run/autolaunch/cuda-compat") !=
                  line.npos);
            CHECK(
                line.ends_with("LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; export "
                               "LD_LIBRARY_PATH; shift; exec \"$@\" sh "
                               "/run/autolaunch/cuda-compat python3 train.py"));
        }
        for (const char* driver : {"570.86.15", "580.65.06"}) {
            facts.nvidia_driver = driver;
            const ContainerChoice choice = choose_container(needs, facts);
            CHECK(line_of(choice).find("cuda-compat") == std::string::npos);
            const auto notes = container_words(needs, facts, choice).notes;
            CHECK(std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
                return note.starts_with("container.cuda_compat is not used: the driver of this");
            }));
        }
    }
}

TEST_CASE("mistakes in the section have their places") {
    const auto lines = [](const std::string& text) { return lines_of(load_text(text)); };
    CHECK(lines("container: {image: a, runtime: podman, mounts: [/data, \"/s:rw\"]}").empty());
    const auto docker = lines("container:\n  image: a\n  runtime: docker\n");
    REQUIRE(docker.size() == 1);
    CHECK(
        docker[0].starts_with("t.yaml:3:12: container.runtime: docker's containers are children "
                              "of its daemon and not of autolaunch"));
    CHECK(lines("container: {image: a, runtime: lxc}")[0].starts_with(
        "t.yaml:1:32: container.runtime: expected apptainer, enroot, podman or pyxis"));
    CHECK(lines("container: {image: a, mounts: [/ok, data]}")[0].starts_with(
        "t.yaml:1:37: container.mounts: expected SOURCE, SOURCE:TARGET"));
    CHECK(lines("container: {image: a, mounts: [/a:/c, /b:/c]}")[0] ==
          "t.yaml:1:39: container.mounts: /c is mounted twice; remove one of the two");
    CHECK(lines("container: {image: a, digest: sha256:1}")[0].starts_with(
        "t.yaml:1:31: container.digest: expected sha256: and 64 hexadecimal digits"));
    CHECK(lines("container: {image: \"a@" + kDigest +
                "\", digest: \"sha256:" + std::string(64, '1') + "\"}")[0]
              .find("container.digest: container.image has another digest") != std::string::npos);
    CHECK(lines("container: {image: a, cuda_compat: cuda}")[0].starts_with(
        "t.yaml:1:36: container.cuda_compat: expected the absolute path of a folder"));
    CHECK(lines("container: {image: a, runtime: pyxis, cuda_compat: /c}")[0].starts_with(
        "t.yaml:1:52: container.cuda_compat: with pyxis, Slurm starts the image"));
    CHECK(
        lines("container: {runtime: podman}")[0].starts_with("t.yaml:1:1: container: needs image"));
    CHECK(lines("container: {image: --privileged}")[0].starts_with(
        "t.yaml:1:20: container.image: begins with -"));
    CHECK(lines("container: {require_digest: true}").empty());
    const auto misspelt = lines("container: {imag: a}");
    REQUIRE(misspelt.size() == 2);
    CHECK(misspelt[1].find("did you mean \"image\"?") != std::string::npos);
}

TEST_CASE("podman: as a user, and as root") {
    ContainerFacts facts = node_with({"podman", "crun"});
    const std::string common =
        "--runtime=crun --runtime-flag=cgroup-manager=disabled --cgroups=no-conmon "
        "--log-driver=passthrough --pull=never --entrypoint= --network=host --pid=host --uts=host "
        "--security-opt=label=disable ";
    const std::string begin =
        "/usr/bin/podman run --rm --name=a-0-0 --pidfile=/run/user/1/a/p "
        "--label=autolaunch=a ";
    const std::string end =
        "--volume=/data:/data:ro --volume=/raw:/data/raw:ro --volume=/dev/shm:/dev/shm:rw "
        "--volume=/run/user/1/a:/run/user/1/a:rw --volume=/scratch:/scratch:rw --env=RANK "
        "--env=TOKEN nv/torch:25 python3 train.py";
    CHECK(line_of(choose_container(needs_of("podman", "nv/torch:25"), facts)) ==
          begin + common + "--ulimit=host --userns=keep-id --group-add=keep-groups " + end);
    facts.is_root = true;
    CHECK(line_of(choose_container(needs_of("podman", "nv/torch:25"), facts)) ==
          begin + common + "--ulimit=nofile=1024:4096 --ulimit=nproc=-1:-1 " + end);
    ContainerStart with_input = start_of_rank();
    with_input.has_input = true;
    CHECK(line_of(choose_container(needs_of("", "a"), facts), with_input).find(" --interactive ") !=
          std::string::npos);
}

TEST_CASE("apptainer: its environment is what it is started with") {
    ContainerNeeds needs = needs_of("apptainer", "/images/t.sif");
    needs.workdir_is_given = true;
    needs.uses_gpus = true;
    needs.variables = {"PYTHONPATH"};
    ContainerFacts facts = node_with({"apptainer", "podman"});
    facts.nvidia_nodes = {"/dev/nvidia0"};
    facts.python_folder = "/usr/share/autolaunch/python";
    const ContainerChoice choice = choose_container(needs, facts);
    CHECK(line_of(choice) ==
          "/usr/bin/apptainer exec --no-home --no-mount=home,cwd --nv --bind=/data:/data:ro "
          "--bind=/raw:/data/raw:ro --bind=/dev/shm:/dev/shm:rw "
          "--bind=/home/me/job:/home/me/job:rw --bind=/run/user/1/a:/run/user/1/a:rw "
          "--bind=/scratch:/scratch:rw "
          "--bind=/usr/share/autolaunch/python:/usr/share/autolaunch/python:ro "
          "--pwd=/home/me/job /images/t.sif python3 train.py");
    const auto environment = container_environment(
        choice, {"PATH=/usr/bin", "RANK=0", "CONDA_PREFIX=/c", "LD_PRELOAD=/x.so",
                 "PYTHONPATH=/usr/share/autolaunch/python", "APPTAINER_CACHEDIR=/c",
                 "APPTAINERENV_RANK=7"});
    CHECK(environment == std::vector<std::string>{
                             "PATH=/usr/bin", "RANK=0", "PYTHONPATH=/usr/share/autolaunch/python",
                             "APPTAINER_CACHEDIR=/c", "APPTAINERENV_RANK=7",
                             "APPTAINERENV_PYTHONPATH=/usr/share/autolaunch/python"});
}

TEST_CASE("enroot: variables by name, and the folder by the image's own shell") {
    ContainerNeeds needs = needs_of("enroot", "/images/t.sqsh");
    needs.spec.mounts = {"/home/me:rw"};
    needs.uses_gpus = true;
    const ContainerChoice choice = choose_container(needs, node_with({"enroot"}));
    ContainerStart start = start_of_rank();
    start.environment = container_environment(choice, start.environment);
    CHECK(line_of(choice, start) ==
          "/usr/bin/enroot start --mount /dev/shm:/dev/shm:none:x-create=auto,rbind,rw "
          "--mount /home/me:/home/me:none:x-create=auto,rbind,rw "
          "--mount /run/user/1/a:/run/user/1/a:none:x-create=auto,rbind,rw "
          "--mount /scratch/runs/1:/scratch/runs/1:none:x-create=auto,rbind,rw --env RANK "
          "--env TOKEN --env NVIDIA_VISIBLE_DEVICES --env NVIDIA_DRIVER_CAPABILITIES "
          "/images/t.sqsh /bin/sh -c cd \"$1\" && shift && exec \"$@\" sh /home/me/job python3 "
          "train.py");
}

TEST_CASE("pyxis: the step is inside, and nothing is put around ranks") {
    const ContainerNeeds needs = needs_of("pyxis", "nvcr.io#nvidia/pytorch:25.01-py3");
    const ContainerChoice choice = choose_container(needs, node_with({}));
    CHECK_FALSE(choice.wraps());
    CHECK(line_of(choice) == "python3 train.py");
    const ContainerWords words = container_words(needs, node_with({}), choice);
    REQUIRE(words.notes.size() == 1);
    CHECK(words.notes[0].find("autolaunch must be installed in it") != std::string::npos);
    CHECK(words.notes[0].find(
              "srun --container-image=nvcr.io#nvidia/pytorch:25.01-py3 "
              "--container-mounts=/data:/data:ro,/scratch:/scratch:rw,/raw:/data/raw:ro "
              "--no-container-mount-home autolaunch") != std::string::npos);
}

TEST_CASE("no value of a variable is in a command line") {
    for (const char* runtime : {"apptainer", "enroot", "podman"}) {
        const auto choice = choose_container(needs_of(runtime, "a"),
                                             node_with({"apptainer", "enroot", "podman", "crun"}));
        CHECK(line_of(choice).find("very secret") == std::string::npos);
    }
}

TEST_CASE("the runtime is the one that is asked for, or the first that is there") {
    CHECK(choose_container(needs_of("", "a"), node_with({"enroot", "podman", "crun"})).runtime ==
          "podman");
    CHECK(error_of(needs_of("", "a"), node_with({})) ==
          "container.image: this node has no apptainer, podman or enroot in PATH");
    CHECK(error_of(needs_of("apptainer", "a"), node_with({"podman"})) ==
          "container.runtime: this node has no apptainer in PATH");
    CHECK(error_of(needs_of("podman", "a"), node_with({"podman"}))
              .starts_with("podman here has no crun"));
}

TEST_CASE("devices are passed on as each runtime does it") {
    ContainerNeeds needs = needs_of("podman", "a");
    needs.uses_gpus = needs.uses_ports = true;
    ContainerFacts facts = node_with({"podman", "crun", "enroot"});
    facts.nvidia_nodes = {"/dev/nvidia0", "/dev/nvidiactl"};
    facts.infiniband = "/dev/infiniband";
    ContainerChoice choice = choose_container(needs, facts);
    CHECK(has(choice.options, "--device=/dev/nvidiactl"));
    CHECK(has(choice.options, "--device=/dev/infiniband"));
    CHECK(container_words(needs, facts, choice).warnings.size() == 1);
    facts.cdi_file = "/etc/cdi/nvidia.yaml";
    choice = choose_container(needs, facts);
    CHECK(has(choice.options, "--device=nvidia.com/gpu=all"));
    CHECK_FALSE(has(choice.options, "--device=/dev/nvidiactl"));
    CHECK(container_words(needs, facts, choice).warnings.empty());
    needs.spec.runtime = "enroot";
    choice = choose_container(needs, facts);
    CHECK(choice.binds.back().source == "/dev/infiniband");
    needs.uses_gpus = false;
    CHECK(choose_container(needs, facts).environment.empty());
}

TEST_CASE("digests: of a registry's image its reference, of a file its bytes") {
    CHECK(with_digest("reg:5000/a/b:tag", "sha256:1") == "reg:5000/a/b@sha256:1");
    CHECK(with_digest("reg:5000/a/b", "sha256:1") == "reg:5000/a/b@sha256:1");
    CHECK(with_digest("docker://a:t", "sha256:1") == "docker://a@sha256:1");
    CHECK(with_digest("a@" + kDigest, "sha256:1") == "a@" + kDigest);
    ContainerNeeds needs = needs_of("podman", "a:t");
    needs.spec.digest = kDigest;
    ContainerFacts facts = node_with({"podman", "crun", "apptainer", "enroot"});
    CHECK(choose_container(needs, facts).image == "a@" + kDigest);
    needs.spec.runtime = "pyxis";
    CHECK(error_of(needs, facts).starts_with("container.digest: with pyxis"));
    needs.spec.runtime = "enroot";
    CHECK(error_of(needs, facts).starts_with("container.digest: enroot cannot say"));
    facts.image_is_file = true;
    ContainerChoice choice = choose_container(needs, facts);
    CHECK(choice.file_digest == kDigest);
    const SpecFiles files;
    choice.image = files.write("empty.sqsh", "");
    CHECK_NOTHROW(check_image_file(choice));
    choice.image = files.write("other.sqsh", "x");
    CHECK_THROWS_WITH(check_image_file(choice),
                      doctest::Contains("and not " + doctest::String(kDigest.c_str())));
}

TEST_CASE("a rank's container has its sockets and its own secrets") {
    LaunchPlan plan;
    plan.container = choose_container(needs_of("podman", "a"), node_with({"podman", "crun"}));
    SecretSpec secret;
    secret.name = "KEY";
    secret.as = SecretSpec::As::file;
    plan.spec.given_secrets = {secret};
    const RankPlace place{"/run/user/1/autolaunch-x", 2, 5};
    ChildSpec rank;
    rank.argv = {"./t"};
    rank.environment = {"KEY_FILE=/dev/shm/k", "RANK=5"};
    const ChildSpec child = in_container(plan, place, rank, true);
    CHECK(has(child.argv, "--name=autolaunch-x-2-5"));
    CHECK(has(child.argv, "--label=autolaunch=autolaunch-x"));
    CHECK(has(child.argv, "--pidfile=/run/user/1/autolaunch-x/container-2-5.pid"));
    CHECK(has(child.argv, "--volume=/run/user/1/autolaunch-x:/run/user/1/autolaunch-x:rw"));
    CHECK(has(child.argv, "--volume=/dev/shm/k:/dev/shm/k:ro"));
    CHECK(has(child.argv, "--env=KEY_FILE"));
    CHECK(child.argv.back() == "./t");
    CHECK(child.environment == std::vector<std::string>{"KEY_FILE=/dev/shm/k", "RANK=5"});
}

TEST_CASE("what podman exits with is how its rank ended") {
    const auto ended = [](int code) { return end_in_container({.exit_code = code, .signal = {}}); };
    for (const int code : {0, 1, 125, 127, 128, 255}) {
        CHECK(ended(code).exit_code == code);
        CHECK_FALSE(ended(code).signal);
    }
    CHECK(ended(137).signal == SIGKILL);
    CHECK_FALSE(ended(137).exit_code);
    CHECK(end_in_container({.exit_code = {}, .signal = SIGTERM}).signal == SIGTERM);
}

TEST_CASE("what cannot be done in a container is refused with what can") {
    LaunchPlan plan;
    ContainerChoice choice;
    choice.runtime = kPodman;
    choice.program = "/usr/bin/podman";
    CHECK(why_not_in_container(plan, choice).empty());
    plan.spec.logging.stdio = "pty";
    CHECK(why_not_in_container(plan, choice).find("take file") != std::string::npos);
    choice.runtime = "apptainer";
    CHECK(why_not_in_container(plan, choice).empty());
    plan.spec.restart.warm_processes = true;
    CHECK(why_not_in_container(plan, choice).find("restart.warm_processes") == 0);
    choice.program.clear();  // pyxis: there is nothing around ranks
    CHECK(why_not_in_container(plan, choice).empty());
}

namespace {

// "warn container_driver" of what the doctor says, worst or first; "fine", "idle" or "unchecked".
std::string said_of(const NodeReport& report, const std::string& check) {
    for (const Finding& finding : report.findings)
        if (finding.check == check)
            return std::string(severity_name(finding.severity)) + ": " + finding.what;
    if (has(report.fine, check))
        return "fine";
    for (const Unchecked& idle : report.idle)
        if (idle.check == check)
            return "idle: " + idle.why;
    for (const Unchecked& one : report.unchecked)
        if (one.check == check)
            return "unchecked: " + one.why;
    return "nothing";
}

ContainerExamined image_with(std::map<std::string, std::vector<std::string>> said,
                             const std::string& driver) {
    said["shell"] = {""};
    return {.said = std::move(said), .trouble = "", .driver = driver};
}

}  // namespace

TEST_CASE("doctor: what the shell in an image says") {
    const ContainerProbe probe = parse_probe(
        "a banner\nautolaunch: shell\nautolaunch: nccl /usr/lib/libnccl.so.2.21.5\n"
        "autolaunch: nccl /usr/lib/libnccl.so.2.21.5\nautolaunch: nccl /opt/b/libnccl.so.2.1\n");
    CHECK(probe.trouble == "a banner");
    CHECK(probe.said.at("shell") == std::vector<std::string>{""});
    CHECK(probe.said.at("nccl").size() == 2);
    CHECK(parse_probe("Error: image not known\n").trouble == "Error: image not known");
}

TEST_CASE("doctor: a driver is old enough for an image's CUDA, or not, or nobody knows") {
    CHECK(oldest_driver_for("12.8.0.038") == "525.60.13");
    CHECK(oldest_driver_for("9.0").empty());
    const auto driver = [](const std::string& cuda, const std::string& version,
                           std::map<std::string, std::vector<std::string>> said = {}) {
        said["cuda"] = {cuda};
        return said_of(judge_container("n", image_with(said, version)), "container_driver");
    };
    CHECK(driver("12.4", "550.54.15") == "fine");
    CHECK(driver("12.4", "525.60.13") == "fine");
    CHECK(driver("12.4", "525.60.9") ==
          "fail: the image has CUDA 12.4, which needs driver 525.60.13 or later; this node has "
          "525.60.9");
    CHECK(driver("13.0", "550.54.15", {{"compat", {"/usr/local/cuda/compat/libcuda.so.580.1"}}})
              .starts_with("warn: the image has CUDA 13.0"));
    CHECK(driver("13.0", "").starts_with("unchecked: the image has CUDA 13.0, and this node no"));
    CHECK(driver("8.0", "550.54.15").starts_with("unchecked: which driver"));
    CHECK(said_of(judge_container("n", image_with({}, "550.54.15")), "container_driver")
              .starts_with("unchecked: the image does not say which CUDA"));
}

TEST_CASE("doctor: CUDA's compatibility library of the node") {
    ContainerExamined old = image_with({{"cuda", {"13.0"}}}, "550.54.15");
    old.node_compat = "/usr/local/cuda-13.0/compat";
    CHECK(judge_container("n", old).findings.front().fix.find(
              "container.cuda_compat: /usr/local/cuda-13.0/compat, which this node has") !=
          std::string::npos);
    old.cuda_compat = "/run/autolaunch/cuda-compat";
    CHECK(said_of(judge_container("n", old), "container_driver")
              .find("container.cuda_compat gives ranks its library") != std::string::npos);
}

TEST_CASE("doctor: devices, NCCL and its plugin inside an image") {
    ContainerExamined none = image_with({}, "");
    CHECK(said_of(judge_container("n", none), "container_devices") == "idle: no GPU");
    CHECK(
        said_of(judge_container("n", none), "container_nccl").starts_with("unchecked: no libnccl"));
    CHECK(said_of(judge_container("n", none), "container_plugin").starts_with("idle: no HCA"));
    CHECK(said_of(judge_container("n", image_with({}, "550.1")), "container_devices") ==
          "fail: no GPU is seen inside");
    CHECK(said_of(judge_container("n", image_with({{"gpu", {"/dev/nvidia0"}}}, "550.1")),
                  "container_devices") == "warn: GPUs are seen inside, and no libcuda.so.1");
    ContainerExamined full = image_with({{"gpu", {"/dev/nvidia0"}},
                                         {"libcuda", {"/usr/lib64/libcuda.so.1"}},
                                         {"nccl", {"/usr/lib/libnccl.so.2.21.5"}},
                                         {"plugin", {"/opt/x/lib/libnccl-net.so"}}},
                                        "550.1");
    CHECK(said_of(judge_container("n", full), "container_devices") == "fine");
    CHECK(said_of(judge_container("n", full), "container_nccl") ==
          "info: /usr/lib/libnccl.so.2.21.5");
    CHECK(said_of(judge_container("n", full), "container_plugin") ==
          "info: network plugin /opt/x/lib/libnccl-net.so");
    full.said["wheel"] = {"nvidia_nccl_cu12-2.20.5.dist-info"};
    CHECK(said_of(judge_container("n", full), "container_nccl").starts_with("hint: several NCCL"));
    CHECK(said_of(judge_container("n", {.said = {}, .trouble = "image not known", .driver = ""}),
                  "container") == "fail: the image does not start: image not known");
}

}  // namespace container_test
