// What people write who come from torchrun, mpirun and srun: it means what it means there, or the
// error says what to write.

#include "cli/completion.hpp"
#include "cli/job_options.hpp"
#include "cli/options.hpp"
#include "exit_codes/exit_error.hpp"
#include "lint/launches.hpp"
#include "spec_files.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace cli_habits_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

using Arguments = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

JobRequest asked(const Arguments& words, const Variables& environment = {}) {
    return job_request(parse_command_line(words, environment), environment);
}

JobSpec spec_of(const Arguments& words, const Variables& environment = {}) {
    return asked(words, environment).spec;
}

std::string mistake(const Arguments& words) {
    try {
        asked(words);
    } catch (const UsageError& error) {
        return error.what() + ("; " + error.hint());
    }
    return {};
}

bool says(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a long option may be shortened while it is the only one that begins so") {
    CHECK(spec_of({"--redirect=3", "x"}).logging.console_default == StdStreams::none);
    CHECK(spec_of({"--nproc=2", "x"}).resources.ranks_per_node == 2);
    CHECK(spec_of({"--nproc_per=2", "x"}).resources.ranks_per_node == 2);
    CHECK(spec_of({"--standal", "x"}).standalone);
    CHECK(spec_of({"--max-r", "2", "x"}).restart.max_restarts == 2);
    CHECK(says(mistake({"--no", "x"}), "--no: could be --no-line-buffering, --no-prefix"));
    CHECK(says(mistake({"--log", "d", "x"}), "--log-dir, --log-line-prefix-template"));
    CHECK(says(mistake({"--redirectsx=3", "x"}), "unknown option; did you mean --redirects?"));
}

TEST_CASE("torchrun's newer options, and the variables in their place") {
    CHECK(spec_of({"--shutdown-timeout", "5", "x"}).restart.grace_period == 5s);
    CHECK(spec_of({"x"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}}).restart.grace_period == 7s);
    CHECK(spec_of({"--shutdown-timeout=5", "x"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}})
              .restart.grace_period == 5s);
    CHECK(says(mistake({"--shutdown-timeout=soon", "x"}), "expected a number of seconds"));
    CHECK(spec_of({"--virtual-local-rank", "x"}).resources.virtual_local_rank);
    const Variables variable = {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "a"}};
    CHECK(spec_of({"x"}, variable).logging.prefix_template == "a");
    CHECK(spec_of({"x"}, {{"PET_LOG_LINE_PREFIX_TEMPLATE", "b"}}).logging.prefix_template == "b");
    CHECK(spec_of({"--log-line-prefix-template=c", "x"}, variable).logging.prefix_template == "c");
}

TEST_CASE("a script's first -- is torchrun's, a program's is its own") {
    const Arguments script = {"python3", "-u", "s.py", "-n", "3"};
    CHECK(spec_of({"s.py", "--", "-n", "3"}).trainer.command == script);
    CHECK(spec_of({"-m", "s", "--", "a"}).trainer.command ==
          Arguments{"python3", "-u", "-m", "s", "a"});
    CHECK(spec_of({"s.py", "a", "--", "b"}).trainer.command.back() == "b");
    CHECK(spec_of({"s.py", "a", "--", "b"}).trainer.command[4] == "--");
    CHECK(spec_of({"--", "s.py", "--", "b"}).trainer.command[3] == "--");
    CHECK(spec_of({"./prog", "--", "-x"}).trainer.command == Arguments{"./prog", "--", "-x"});
}

TEST_CASE("a file that nothing can execute is a script") {
    SpecFiles files;
    const std::string plain = files.write("train", "print(1)\n");
    CHECK(spec_of({plain}).trainer.command == Arguments{"python3", "-u", plain});
    CHECK(spec_of({"--no-python", plain}).trainer.command == Arguments{plain});
    CHECK(spec_of({"/bin/sh"}).trainer.command == Arguments{"/bin/sh"});
    CHECK(spec_of({"/not/there"}).trainer.command == Arguments{"/not/there"});
}

TEST_CASE("the endpoint is where nodes meet that have no number") {
    const JobSpec spec =
        spec_of({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h:29500", "x"});
    CHECK(spec.rendezvous.address_is_meeting_place);
    CHECK(spec.rendezvous.address == "h");
    CHECK_FALSE(spec_of({"--master-addr=h", "x"}).rendezvous.address_is_meeting_place);
    const auto both = asked({"--rdzv-endpoint=h:1", "--master-addr=i", "x"});
    CHECK(both.spec.rendezvous.address == "h");
    CHECK(says(both.notes.at(0), "--master-addr i has no effect"));
    const auto conf = spec_of({"--rdzv-conf=is_host=True,last_call_timeout=3", "x"}).rendezvous;
    CHECK(conf.is_host == true);
    CHECK(conf.last_call == 3s);
    CHECK(says(mistake({"--rdzv-conf=is_host=perhaps", "x"}), "expected true or false"));
}

TEST_CASE("mpirun's and srun's counts are of all nodes, ours of each") {
    CHECK(spec_of({"-np", "2", "x"}).resources.total_ranks == 2);
    CHECK(spec_of({"--np=2", "x"}).resources.total_ranks == 2);
    CHECK(spec_of({"--ntasks", "8", "x"}).resources.total_ranks == 8);
    CHECK(spec_of({"-npernode", "2", "x"}).resources.ranks_per_node == 2);
    CHECK(spec_of({"-ppn", "2", "x"}).resources.ranks_per_node == 2);
    CHECK(spec_of({"--ntasks-per-node=2", "x"}).resources.ranks_per_node == 2);
    CHECK(spec_of({"--map-by", "ppr:3:node", "x"}).resources.ranks_per_node == 3);
    CHECK(spec_of({"-H", "localhost:4", "x"}).resources.ranks_per_node == 4);
    CHECK(spec_of({"-np", "2", "--host", "localhost,localhost", "x"}).resources.total_ranks == 2);
    CHECK(spec_of({"-n", "2", "x"}).resources.ranks_per_node == 2);
    CHECK(says(mistake({"-np", "none", "x"}), "--ntasks none: expected a whole number"));
}

TEST_CASE("mpirun's other words") {
    const auto exported = asked({"-x", "A=1", "-x", "B", "-x", "C", "x"}, {{"B", "2"}});
    CHECK(exported.spec.trainer.env == Variables{{"A", "1"}, {"B", "2"}});
    CHECK(says(exported.notes.at(0), "-x C: it is not set here"));
    CHECK(spec_of({"--bind-to", "none", "x"}).resources.binding == "none");
    CHECK(spec_of({"--bind-to", "core", "x"}).resources.binding == "exclusive");
    CHECK(spec_of({"--bind-to=numa", "x"}).resources.binding == "node");
    CHECK(says(mistake({"--bind-to=moon", "x"}), "there are none, core"));
    CHECK(says(asked({"--oversubscribe", "x"}).notes.at(0), "--oversubscribe has no effect"));
    CHECK(says(asked({"--label", "x"}).notes.at(0), "each line has its rank in front"));
    CHECK(spec_of({"-wdir", "/tmp", "x"}).trainer.workdir == "/tmp");
}

TEST_CASE("what cannot be done says what can") {
    CHECK(says(mistake({"-N", "2", "x"}), "--nnodes N"));
    CHECK(says(mistake({"-N2", "x"}), "for mpirun (here: -n N)"));
    CHECK(says(mistake({"-H", "node7,node8", "x"}), "node7 is another machine"));
    CHECK(says(mistake({"--hostfile", "f", "x"}), "logs in to no other machine"));
    CHECK(says(mistake({"-hostfile", "f", "x"}), "logs in to no other machine"));
    CHECK(says(mistake({"-machinefile", "f", "x"}), "logs in to no other machine"));
    CHECK(says(mistake({"--mca", "btl", "self", "x"}), "OMPI_MCA_NAME=VALUE"));
    CHECK(says(mistake({"--map-by", "node", "x"}), "ranks fill node after node"));
    CHECK(says(mistake({"-c", "1", "x"}), "-n 1"));
    CHECK(says(mistake({"--cpus-per-task=2", "x"}), "srun --cpus-per-task"));
    CHECK(says(mistake({"-l", "x"}), "rank in front"));
    CHECK(mistake({"-np2", "x"}) != "");
}

TEST_CASE("several programs are ranks of one world") {
    const JobSpec spec =
        spec_of({"-n", "1", "./a", "1", ":", "-n", "3", "--role", "worker", "./b", ":", "c.py"});
    REQUIRE(spec.programs.size() == 3);
    CHECK(spec.programs[0].command == Arguments{"./a", "1"});
    CHECK(spec.programs[0].role == "default");
    CHECK(spec.programs[1].command == Arguments{"./b"});
    CHECK(spec.programs[1].ranks == 3);
    CHECK(spec.programs[1].role == "worker");
    CHECK(spec.programs[2].command == Arguments{"python3", "-u", "c.py"});
    CHECK(spec.resources.total_ranks == 5);
    CHECK(spec_of({"--", "./a", ":", "b"}).trainer.command == Arguments{"./a", ":", "b"});
    CHECK(says(mistake({"-n", "1", "./a", ":", "-n", "2"}), "no program behind a `:`"));
    CHECK(says(mistake({"./a", ":", "--nnodes=2", "./b"}), "concerns the whole job"));
    CHECK(says(mistake({"-n", "auto", "./a", ":", "./b"}), "expected a whole number"));
}

TEST_CASE("lint knows all subcommands that start no ranks") {
    for (const auto& [word, command] : subcommands())
        CHECK_MESSAGE(is_own_subcommand(word) == (command != Command::run), word);
    CHECK(!is_own_subcommand("train.py"));
}

TEST_CASE("completion for each shell has every option") {
    for (const char* shell : {"bash", "zsh", "tcsh"}) {
        const std::string script = completion_script(shell);
        CHECK(says(script, "nproc-per-node"));
        CHECK(says(script, "virtual-local-rank"));
        CHECK(says(script, "doctor"));
    }
    CHECK(parse_command_line({"--print-completion", "bash"}, {}).command == Command::completion);
    CHECK(says(mistake({"--print-completion", "fish"}), "fish"));
}

}  // namespace cli_habits_test
