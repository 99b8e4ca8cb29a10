// What the start of a step makes of a job that may lose nodes: srun's options in every spelling,
// the script, slurm.conf, and launchers that are not Slurm.

#include "plan/node_loss.hpp"
#include "allocation/srun_process.hpp"
#include "fake_system.hpp"

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <string>
#include <vector>

namespace node_loss_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using Lines = std::vector<std::string>;

namespace {

JobSpec elastic_job() {
    JobSpec spec;
    spec.resources.nodes = 2;
    spec.resources.most_nodes = 4;
    return spec;
}

Allocation by(const std::string& source) {
    Allocation allocation;
    allocation.source = source;
    return allocation;
}

StepStart started_by(Lines words, EnvironmentMap environment = {}) {
    StepStart step;
    words.insert(words.begin(), "srun");
    words.insert(words.end(), {"/opt/bin/autolaunch", "--wait=77", "-K", "train"});
    step.srun = SrunProcess{std::move(words), std::move(environment)};
    step.batch_script = "#!/bin/bash\n#SBATCH -N4 --no-kill\nsrun autolaunch\n";
    return step;
}

NodeLossWords words_of(const StepStart& step, const EnvironmentMap& environment = {}) {
    return node_loss_words(elastic_job(), 4, by("slurm"), environment, step);
}

bool warns(const StepStart& step, const std::string& of) {
    const auto words = words_of(step);
    return std::any_of(words.warnings.begin(), words.warnings.end(),
                       [&](const std::string& line) { return line.find(of) != line.npos; });
}

}  // namespace

TEST_CASE("a step that lets a node go needs no word") {
    for (const Lines& options :
         {Lines{"--no-kill", "--wait=0"}, Lines{"-N4", "-k", "-W0"}, Lines{"--no-k", "-W", "0"}}) {
        CHECK(words_of(started_by(options)).warnings.empty());
        CHECK(words_of(started_by(options)).notes.empty());
    }
    CHECK(words_of(started_by({}, {{"SLURM_NO_KILL", "1"}})).warnings.empty());
}

TEST_CASE("what of srun forbids it, with what to change") {
    CHECK(words_of(started_by({"-N4"})).warnings ==
          Lines{"a lost node: srun was not told --no-kill: Slurm ends the step when it notices a "
                "lost node; srun --no-kill autolaunch …"});
    CHECK(warns(started_by({"--no-kill=off"}), "--no-kill"));
    for (const Lines& options :
         {Lines{"-k", "-K"}, Lines{"-k", "--kill-on-bad-exit=1"}, Lines{"-k", "--kill", "-W", "0"}})
        CHECK(warns(started_by(options), "srun was told -K"));
    CHECK_FALSE(warns(started_by({"-k", "-K0"}), "-K"));
    for (const Lines& options :
         {Lines{"-k", "--wait=60"}, Lines{"-k", "--wait", "60"}, Lines{"-k", "-W60"}})
        CHECK(warns(started_by(options), "srun ends the step 60 s after the first task"));
    CHECK(warns(started_by({"-k"}, {{"SLURM_WAIT", "9"}}), "9 s"));
    StepStart configured = started_by({"-k"});
    configured.kill_on_bad_exit = 1;
    configured.wait_time = 30;
    CHECK(words_of(configured).warnings.size() == 2);
    CHECK(warns(configured, "slurm.conf has KillOnBadExit=1"));
    configured = started_by({"-k", "--wait=0", "--kill-on-bad-exit=0"});
    configured.kill_on_bad_exit = 1;
    configured.wait_time = 30;
    CHECK(words_of(configured).warnings.empty());
}

TEST_CASE("what of the job forbids it, and what is not known is no warning") {
    StepStart step = started_by({"-k"});
    step.batch_script = "#!/bin/bash\n#SBATCH -N4\n";
    CHECK(warns(step, "#SBATCH --no-kill"));
    CHECK(words_of(step, {{"SBATCH_NO_KILL", "1"}}).warnings.empty());
    step.srun->environment = {{"HOME", "/home/me"}};  // srun made the job itself
    CHECK(words_of(step).warnings.empty());
    step.srun->environment["SLURM_JOB_ID"] = "7";
    CHECK(words_of(step).warnings.size() == 1);
    const NodeLossWords unknown = words_of({});
    CHECK(unknown.warnings.empty());
    CHECK(unknown.notes.size() == 2);
    Allocation script = by("slurm");
    script.on_every_node = false;
    CHECK(node_loss_words(elastic_job(), 4, script, {}, {}).notes.size() == 1);
}

TEST_CASE("other launchers, and jobs that need every node") {
    for (const char* source : {"mpirun", "pbs", "lsf", "volcano"})
        CHECK(node_loss_words(elastic_job(), 4, by(source), {}, {}).warnings.size() == 1);
    for (const char* source : {"static", "kubernetes", "local"})
        CHECK(node_loss_words(elastic_job(), 4, by(source), {}, {}).warnings.empty());
    JobSpec whole;
    whole.resources.nodes = 4;
    CHECK(node_loss_words(whole, 4, by("mpirun"), {}, {}).warnings.empty());
    CHECK(node_loss_words(elastic_job(), 1, by("mpirun"), {}, {}).warnings.empty());
}

TEST_CASE("srun is found by the port on which it listens") {
    testing::FakeSystem system;
    const std::string table =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid timeout "
        "inode\n"
        "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1 0\n"
        "   1: 0100007F:1F91 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 0 0 4712 1 "
        "0\n";
    system.file("proc/self/net/tcp", table);
    for (const auto& [process, name, socket] :
         {std::tuple{"12", "srun", "4712"}, std::tuple{"13", "sleep", "4711"},
          std::tuple{"14", "srun", "4711"}}) {
        const std::string folder = std::string("proc/") + process;
        system.file(folder + "/comm", std::string(name) + "\n");
        std::ofstream(system.root() / folder / "cmdline")
            << std::string("srun\0-N4\0", 9) << process << '\0';
        system.file(folder + "/environ", std::string("SLURM_WAIT=9\0A=\0", 16));
        system.file(folder + "/fd/0", "");
        REQUIRE(::symlink((std::string("socket:[") + socket + "]").c_str(),
                          (system.root() / folder / "fd/7").c_str()) == 0);
    }
    const std::string proc = system.root() / "proc";
    const auto found = find_srun({{"SLURM_SRUN_COMM_PORT", "8080"}}, proc);
    REQUIRE(found);
    CHECK(found->words == Lines{"srun", "-N4", "14"});
    CHECK(found->environment.at("SLURM_WAIT") == "9");
    CHECK_FALSE(find_srun({{"SLURM_SRUN_COMM_PORT", "8081"}}, proc));  // not listening
    for (const char* port : {"", "0", "x", "70000"})
        CHECK_FALSE(find_srun({{"SLURM_SRUN_COMM_PORT", port}}, proc));
    CHECK_FALSE(find_srun({}, proc));
}

}  // namespace node_loss_test
