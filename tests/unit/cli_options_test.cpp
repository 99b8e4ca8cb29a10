// What a command line means: torchrun's options and their defaults, overrides, and where PROGRAM
// begins.

#include "cli/job_options.hpp"
#include "cli/options.hpp"
#include "exit_codes/exit_error.hpp"
#include "spec_files.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <vector>

namespace cli_options_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

CommandLine parse(const Words& words, const Environment& environment = {}) {
    return parse_command_line(words, environment);
}

/// The job of a command line without a spec; "x" is its program unless it names one.
JobRequest job_of(Words words, const Environment& environment = {}) {
    if (words.empty() || words.back() != "x")
        words.push_back("x");
    return job_request(parse(words, environment), environment);
}

/// The whole message and hint of the usage error, or "" when there was none.
std::string usage_error_of(const Words& words, const Environment& environment = {}) {
    try {
        job_request(parse(words, environment), environment);
    } catch (const UsageError& error) {
        return error.what() + (error.hint().empty() ? "" : "; " + error.hint());
    }
    return {};
}

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("dashes and underscores, = and a separate word, long and short") {
    for (const Words& words : {Words{"--nproc-per-node", "4"}, Words{"--nproc_per_node", "4"},
                               Words{"--nproc-per-node=4"}, Words{"--nproc_per_node=4"}}) {
        const JobSpec spec = job_of(words).spec;
        CHECK(spec.resources.ranks_mode == RanksPerNode::fixed);
        CHECK(spec.resources.ranks_per_node == 4);
    }
    for (const Words& words :
         {Words{"-r", "3"}, Words{"-r3"}, Words{"-r=3"}, Words{"--redirects", "3"}})
        CHECK(job_of(words).spec.logging.console_default == StdStreams::none);
}

TEST_CASE("what follows PROGRAM is the program's, untouched") {
    const auto line =
        parse({"--nnodes", "1", "prog", "--nnodes=7", "-c", "x", "--", "a=b", "--help"});
    CHECK(line.program == Words{"prog", "--nnodes=7", "-c", "x", "--", "a=b", "--help"});
    CHECK(line.options.nnodes == "1");
    CHECK(parse({"--", "-odd", "a"}).program == Words{"-odd", "a"});
    CHECK(parse({"-c", "f.yaml", "a.b=1", "--", "c.d=2", "e=3"}).program == Words{"c.d=2", "e=3"});
    CHECK(parse({"--rdzv-id", "--odd", "prog"}).options.rdzv_id == "--odd");
}

TEST_CASE("overrides count only after -c") {
    const auto line = parse(
        {"-c", "f.yaml", "restart.max_restarts=3", "--role", "r", "model=x", "train.py", "a=1"});
    CHECK(line.overrides == Words{"restart.max_restarts=3", "model=x"});
    CHECK(line.program == Words{"train.py", "a=1"});
    CHECK(contains(usage_error_of({"restart.max_restarts=3", "-c", "f.yaml"}),
                   "give -c FILE before it"));
    CHECK(parse({"--", "a=b"}).program == Words{"a=b"});
}

TEST_CASE("subcommands") {
    CHECK(parse({"prog"}).command == Command::run);
    CHECK(parse({"run", "prog"}).program == Words{"prog"});
    CHECK(parse({"run", "--", "plan"}).program == Words{"plan"});
    CHECK(parse({"plan", "--json", "-c", "f"}).json);
    CHECK(parse({"schema", "--markdown"}).markdown);
    CHECK(parse({"validate", "f.yaml", "a.b=1"}).spec_file == "f.yaml");
    CHECK(parse({"validate", "-c", "f.yaml", "a.b=1"}).overrides == Words{"a.b=1"});
    CHECK(parse({"--version"}).command == Command::version);
    for (const Words& words : {Words{"--help"}, Words{"plan", "-h"}, Words{"validate", "--help"},
                               Words{"schema", "-h"}}) {
        const auto line = parse(words);
        CHECK(line.command == Command::help);
        CHECK(contains(line.help, "Examples:"));
        CHECK(contains(line.help, "Usage: autolaunch "));
    }
    CHECK(contains(usage_error_of({"validate"}), "needs a file"));
    CHECK(contains(usage_error_of({"validate", "a.yaml", "b.yaml"}), "takes one file"));
    CHECK(contains(usage_error_of({"schema", "x"}), "takes no arguments"));
    CHECK(contains(usage_error_of({"-c", "f.yaml", "validate"}), "the subcommand comes first"));
    CHECK(parse({"-c", "f.yaml", "--", "validate"}).program == Words{"validate"});
}

TEST_CASE("submit") {
    const auto line = parse({"submit", "-c", "f.yaml", "slurm_config.nodes=2", "--wait", "--hold",
                             "--snapshot", "--json", "--", "train.py", "--lr", "1"});
    CHECK(line.command == Command::submit);
    CHECK(line.overrides == Words{"slurm_config.nodes=2"});
    CHECK(line.program == Words{"train.py", "--lr", "1"});
    CHECK((line.submit.wait && line.submit.hold && line.submit.snapshot && line.json));
    CHECK(parse({"submit", "-c", "f.yaml", "--to", "slurm", "--dry-run"}).dry_run);
    CHECK(contains(usage_error_of({"submit"}), "submit needs a spec"));
    const auto pods = parse({"submit", "-c", "f.yaml", "--to", "kubernetes", "--run", "runs/a"});
    CHECK((pods.submit.to == "kubernetes" && pods.submit.earlier_run == "runs/a"));
    CHECK(contains(usage_error_of({"submit", "-c", "f.yaml", "--to", "podman"}),
                   "--to podman: expected slurm, or one of kubernetes, jobset, volcano"));
    for (const char* option : {"--wait", "--hold", "--snapshot", "--json"})
        CHECK(contains(usage_error_of({"submit", "-c", "f.yaml", "--to", "jobset", option}),
                       "--to jobset prints what kubectl submits"));
    CHECK(contains(usage_error_of({"submit", "-c", "f.yaml", "--to", "volcano", "--", "a"}),
                   "--to volcano takes KEY=VALUE only"));
    CHECK(contains(usage_error_of({"submit", "-c", "f.yaml", "--run", "runs/a"}),
                   "--run goes with --to kubernetes"));
    CHECK(contains(usage_error_of({"submit", "-c", "f.yaml", "--dry-run", "--wait"}),
                   "--dry-run submits nothing"));
    CHECK(contains(usage_error_of({"submit", "-c", "f.yaml", "--nproc-per-node", "2"}),
                   "unknown option"));
}

TEST_CASE("what starts no program takes options in any order") {
    const CommandLine lint = parse({"lint", "a.sh", "--json", "b.sh", "--slurm-conf", "s.conf"});
    CHECK(lint.program == Words{"a.sh", "b.sh"});
    CHECK(lint.json);
    CHECK(lint.slurm_conf == "s.conf");
    CHECK(parse({"lint", "a.sh", "--", "--json"}).program == Words{"a.sh", "--json"});
    CHECK(parse({"lint", "a.sh", "KEY=VALUE"}).program == Words{"a.sh", "KEY=VALUE"});
    CHECK(parse({"validate", "f.yaml", "--json", "a.b=1"}).json);
    CHECK(parse({"topo", "f.xml", "--svg"}).svg);
    CHECK(parse({"report", "runs/a", "--json", "runs/b"}).program == Words{"runs/a", "runs/b"});
    CHECK(parse({"ckpt", "show", "d", "--tensors"}).checkpoints.paths == Words{"d"});
    CHECK(parse({"doctor", "-c", "f", "a.b=1", "--json"}).overrides == Words{"a.b=1"});
    CHECK(contains(usage_error_of({"doctor", "a.b=1"}), "doctor takes options and KEY=VALUE only"));
    CHECK(contains(usage_error_of({"lint", "a.sh", "--jsn"}), "did you mean --json?"));
    CHECK(parse({"plan", "x", "--json"}).program == Words{"x", "--json"});  // the program's
}

TEST_CASE("unknown options name the nearest one; values must be there") {
    CHECK(usage_error_of({"--nprok-per-node", "4", "x"}) ==
          "--nprok-per-node: unknown option; did you mean --nproc-per-node?");
    CHECK(contains(usage_error_of({"--max_restrats=4", "x"}), "did you mean --max-restarts?"));
    CHECK(contains(usage_error_of({"--colour", "x"}), "see autolaunch --help"));
    CHECK(contains(usage_error_of({"-z", "x"}), "-z: unknown option"));
    CHECK(contains(usage_error_of({"--nnodes"}), "--nnodes needs a value"));
    CHECK(contains(usage_error_of({"--role=", "x"}), "needs a value that is not empty"));
    CHECK(contains(usage_error_of({"--standalone=perhaps", "x"}), "standalone"));
    CHECK(contains(usage_error_of({"validate", "--nnodes=2", "f"}), "unknown option"));
    CHECK(contains(usage_error_of({}), "there is no program to run"));
    CHECK(contains(usage_error_of({"--nnodes", "1"}), "there is no program to run"));
}

TEST_CASE("torchrun's options reach the job") {
    const JobSpec spec =
        job_of({"--nnodes=1", "--nproc-per-node=gpu", "--max-restarts=3", "--role=trainer",
                "--numa-binding=exclusive", "--log-dir=/l", "--local-ranks-filter=0,2",
                "--signals-to-handle=SIGTERM,SIGUSR1", "--rdzv-id=77", "--rdzv-conf=timeout=30",
                "--rdzv-endpoint=h:123", "--local-addr=10.0.0.2", "--node-rank=0", "--mpi=pmi1",
                "--preload=torch,numpy", "-q"})
            .spec;
    CHECK(spec.resources.ranks_mode == RanksPerNode::gpu);
    CHECK(spec.restart.max_restarts == 3);
    CHECK(spec.role == "trainer");
    CHECK(spec.resources.binding == "exclusive");
    CHECK(spec.trainer.mpi == "pmi1");
    CHECK(spec.trainer.preload.modules == std::vector<std::string>{"torch", "numpy"});
    CHECK(spec.run_dir == "/l");
    CHECK(spec.logging.local_ranks_filter == std::vector<int>{0, 2});
    CHECK(spec.logging.quiet);
    CHECK(spec.stop_signals == std::vector<int>{SIGTERM, SIGUSR1});
    CHECK(spec.run_id == "77");
    CHECK(spec.rendezvous.timeout == 30s);
    CHECK(spec.rendezvous.address == "h");
    CHECK(spec.rendezvous.port == 123);
    CHECK(spec.local_addr == "10.0.0.2");
    CHECK(spec.node_rank == 0);
    CHECK(spec.logging.prefix);
}

TEST_CASE("mpirun's -n, and lines as the ranks wrote them") {
    const JobSpec spec = job_of({"-n", "8", "--no-prefix"}).spec;
    CHECK(spec.resources.ranks_mode == RanksPerNode::fixed);
    CHECK(spec.resources.ranks_per_node == 8);
    CHECK_FALSE(spec.logging.prefix);
}

TEST_CASE("what ranks write to, and whether they are made to write lines") {
    CHECK(job_of({}).spec.logging.stdio == "file");
    CHECK(job_of({}).spec.logging.line_buffered);
    const JobSpec spec = job_of({"--stdio", "pty", "--no-line-buffering"}).spec;
    CHECK(spec.logging.stdio == "pty");
    CHECK_FALSE(spec.logging.line_buffered);
    CHECK_THROWS_AS(job_of({"--stdio", "tty", "./train"}), UsageError);
}

TEST_CASE("binding by a word or by a list") {
    const auto resources = [](const std::string& text) {
        return job_of({"--numa-binding", text}).spec.resources;
    };
    CHECK(resources("none").binding == "none");
    CHECK(resources("none").binding_list.empty());
    CHECK(resources("0-7,64-71;numa:1").binding_list == Words{"0-7,64-71", "numa:1"});
    CHECK(resources("core:0").binding_list == Words{"core:0"});
    CHECK(contains(usage_error_of({"--numa-binding=0;near", "x"}),
                   "--numa-binding 0;near: \"near\": expected node"));
    CHECK(contains(usage_error_of({"--numa-binding=0;", "x"}), "\"\": expected"));
}

TEST_CASE("nodes, ranks and endpoints in all their forms") {
    CHECK(job_of({"--nnodes=2"}).spec.resources.nodes == 2);
    const auto elastic = job_of({"--nnodes=1:4"});
    CHECK(elastic.spec.resources.nodes == 1);
    CHECK(elastic.spec.resources.most_nodes == 4);
    CHECK(job_of({"--nproc-per-node=auto"}).spec.resources.ranks_mode == RanksPerNode::automatic);
    CHECK(job_of({"--nproc-per-node=cpu"}).spec.resources.ranks_mode == RanksPerNode::cpu);
    const auto endpoint = [](const std::string& text) {
        return job_of({"--rdzv-endpoint=" + text}).spec.rendezvous;
    };
    CHECK(endpoint("[::1]:99").address == "::1");
    CHECK(endpoint("[::1]:99").port == 99);
    CHECK(endpoint("fe80::1").address == "fe80::1");
    CHECK(endpoint("host").port == 0);
    const JobSpec alone = job_of({"--standalone", "--nnodes=4", "--rdzv-endpoint=h:1"}).spec;
    CHECK(alone.resources.nodes == 1);
    CHECK(alone.rendezvous.address.empty());
    for (const char* bad : {"--nnodes=0",
                            "--nnodes=4:1",
                            "--nnodes=1:2:3",
                            "--nproc-per-node=0",
                            "--nproc-per-node=many",
                            "--max-restarts=-1",
                            "--rdzv-endpoint=h:p",
                            "--rdzv-endpoint=:1",
                            "--rdzv-endpoint=[::1]9",
                            "--master-port=70000",
                            "--rdzv-conf=timeout",
                            "--rdzv-conf=timeout=x",
                            "--numa-binding=near",
                            "--mpi=openmpi",
                            "--preload=",
                            "--signals-to-handle=SIGKILL",
                            "--local-ranks-filter=a",
                            "-r4",
                            "-t0:9",
                            "-t0:1:2"})
        CHECK_MESSAGE(!usage_error_of({bad, "x"}).empty(), bad);
}

TEST_CASE("a redirected stream is off the console unless it is teed") {
    const auto logging = [](const Words& words) { return job_of(words).spec.logging; };
    CHECK(logging({}).console_default == StdStreams::all);
    CHECK(logging({"-r1"}).console_default == StdStreams::err);
    CHECK(logging({"-t3"}).console_default == StdStreams::all);
    CHECK(logging({"-r3", "-t", "1"}).console_default == StdStreams::out);
    const auto map = logging({"-r", "3", "-t", "0:3"});
    CHECK(map.console_default == StdStreams::none);
    CHECK(map.console_by_local_rank == std::map<int, StdStreams>{{0, StdStreams::all}});
    const auto two = logging({"--redirects", "0:1,1:2"});
    CHECK(two.console_default == StdStreams::all);
    CHECK(two.console_by_local_rank ==
          std::map<int, StdStreams>{{0, StdStreams::err}, {1, StdStreams::out}});
}

TEST_CASE("scripts, modules and executables") {
    const Environment plain;
    CHECK(job_request(parse({"train.py", "--lr", "3"}), plain).spec.trainer.command ==
          Words{"python3", "-u", "train.py", "--lr", "3"});
    CHECK(job_request(parse({"./train", "a"}), plain).spec.trainer.command ==
          Words{"./train", "a"});
    CHECK(job_request(parse({"--no-python", "train.py"}), plain).spec.trainer.command ==
          Words{"train.py"});
    CHECK(job_request(parse({"--run-path", "train"}), plain).spec.trainer.command ==
          Words{"python3", "-u", "train"});
    CHECK(job_request(parse({"-m", "pkg.train", "a"}), plain).spec.trainer.command ==
          Words{"python3", "-u", "-m", "pkg.train", "a"});
    CHECK(python_interpreter({{"VIRTUAL_ENV", "/v"}}) == "/v/bin/python");
    CHECK(python_interpreter({{"VIRTUAL_ENV", "/v"}, {"PYTHON_EXEC", "/p"}}) == "/p");
    CHECK(contains(usage_error_of({"-m", "--no-python", "x"}), "contradicts"));
    CHECK(contains(usage_error_of({"-m"}), "needs a module"));
    CHECK(job_request(parse({"dir/train.py"}), plain).spec.name == "train");
}

TEST_CASE("PET_* are defaults: weaker than the spec, which is weaker than options") {
    const Environment environment = {{"PET_NPROC_PER_NODE", "2"},
                                     {"PET_MAX_RESTARTS", "5"},
                                     {"PET_ROLE", "r"},
                                     {"PET_STANDALONE", "1"},
                                     {"PET_MASTER_PORT", ""}};
    CHECK(job_of({}, environment).spec.resources.ranks_per_node == 2);
    CHECK(job_of({"--nproc-per-node=3"}, environment).spec.resources.ranks_per_node == 3);
    const SpecFiles files;
    const std::string file =
        files.write("t.yaml", "restart: {max_restarts: 1}\ntrainer: {command: [spec]}\n");
    const auto request = job_request(parse({"-c", file}, environment), environment);
    REQUIRE(request.errors.empty());
    CHECK(request.spec.restart.max_restarts == 1);
    CHECK(request.spec.role == "r");
    CHECK(request.spec.resources.ranks_per_node == 2);
    CHECK(job_request(parse({"-c", file, "--max-restarts=9"}, environment), environment)
              .spec.restart.max_restarts == 9);
    CHECK(contains(usage_error_of({"x"}, {{"PET_STANDALONE", "maybe"}}), "PET_"));
    CHECK(parse({"x"}, environment).defaults.standalone == true);
    CHECK(parse({"x"}, {{"PET_STANDALONE", "0"}}).defaults.standalone == false);
    CHECK(parse({"--standalone", "x"}).options.standalone == true);
    CHECK_FALSE(parse({"x"}).options.standalone.has_value());
    CHECK(job_of({"prog.py"}, {{"PET_NO_PYTHON", "1"}}).spec.trainer.command.at(0) == "prog.py");
}

TEST_CASE("a program on the command line beats the spec's") {
    const SpecFiles files;
    const std::string file = files.write(
        "t.yaml", "trainer: {module: pkg.m, command: [--a]}\nslurm_config: {job_name: j}\n");
    const auto own = job_request(parse({"-c", file}), {});
    CHECK(own.spec.trainer.command == Words{"python3", "-u", "-m", "pkg.m", "--a"});
    CHECK(own.spec.trainer.module.empty());
    CHECK(own.spec.name == "j");
    const auto other =
        job_request(parse({"-c", file, "restart.backoff=2s", "--", "other", "b=1"}), {});
    CHECK(other.spec.trainer.command == Words{"other", "b=1"});
    CHECK(other.spec.trainer.module.empty());
    CHECK(other.spec.restart.backoff == 2s);
    const std::string empty = files.write("e.yaml", "restart: {}\n");
    CHECK(contains(usage_error_of({"-c", empty}), "set trainer.command in "));
}

TEST_CASE("options without effect say so once") {
    const auto line =
        parse({"--monitor-interval=1", "--monitor-interval=2", "--start_method", "fork", "prog"});
    REQUIRE(line.notes.size() == 2);
    CHECK(contains(line.notes[0] + line.notes[1], "--monitor-interval has no effect: "));
    CHECK(contains(line.notes[0] + line.notes[1], "--start-method has no effect: "));
    CHECK(job_of({"--rdzv-backend=c10d"}).notes.empty());
    CHECK(contains(job_of({"--rdzv-backend=etcd-v2"}).notes.at(0), "etcd-v2 has no effect: "));
    CHECK(contains(job_of({"--rdzv-conf=timeout=3,read_timeout=5"}).notes.at(0),
                   "read_timeout has no effect"));
}

TEST_CASE("--stdin says who gets it") {
    CHECK(job_of({}).spec.trainer.input == InputSpec{});
    CHECK(job_of({"--stdin", "3"}).spec.trainer.input == InputSpec{InputSpec::To::rank, 3, true});
    CHECK(job_of({"--stdin=all"}).spec.trainer.input.to == InputSpec::To::all);
    CHECK(job_of({"--stdin", "none"}).spec.trainer.input.to == InputSpec::To::none);
    CHECK(job_of({}, {{"PET_STDIN", "2"}}).spec.trainer.input.rank == 2);
    for (const char* word : {"-1", "0,1", "rank0", "ALL", "1x"})
        CHECK(usage_error_of({"--stdin", word, "x"}) ==
              "--stdin " + std::string(word) + ": expected none, all or a rank");
}

TEST_CASE("--wrap puts commands around ranks, and may be repeated") {
    const auto wraps =
        job_of({"--wrap", "0=perf record -o a=b", "--wrap=1,3-5=strace"}).spec.trainer.wrap;
    REQUIRE(wraps.size() == 2);
    CHECK(wraps.at("0") == "perf record -o a=b");
    CHECK(wraps.at("1,3-5") == "strace");
    CHECK(job_of({"--wrap", "all=[x]"}).spec.trainer.wrap.at("all") == "[x]");
    for (const char* word : {"perf", "0=", "0= ", "a=perf", "3-1=perf", "=perf", "0,=perf"})
        CHECK(contains(usage_error_of({"--wrap", word, "x"}),
                       "--wrap " + std::string(word) + ": expected RANKS=COMMAND"));
}

TEST_CASE("a debugged rank has the screen for itself") {
    const JobRequest job = job_of({"--debug-rank", "2", "--max-restarts", "3"});
    CHECK(job.spec.debug_rank == 2);
    CHECK(job.spec.trainer.input.to == InputSpec::To::none);
    CHECK(job.spec.logging.console_default == StdStreams::none);
    CHECK_FALSE(job.spec.logging.progress);
    CHECK(job.spec.restart.max_restarts == 0);
    CHECK(job.notes == Words{"no restarts while rank 2 is debugged"});
    const JobRequest gdb = job_of({"--gdb", "1"});
    CHECK(gdb.spec.debug_rank == 1);
    CHECK(gdb.spec.trainer.wrap.at("1") == "gdb -q --args");
    CHECK(contains(usage_error_of({"--gdb", "1", "--debug-rank", "1", "x"}), "exclude each other"));
    CHECK(contains(usage_error_of({"--gdb", "1", "--stdin", "0", "x"}), "contradicts"));
    CHECK(usage_error_of({"--debug-rank", "one", "x"}) ==
          "--debug-rank one: expected a rank, a whole number >= 0");
}

TEST_CASE("audit has two words, and options in any place") {
    const CommandLine show =
        parse({"audit", "--job", "4711", "show", "runs/a", "--since=2d", "--kind", "end"});
    CHECK(show.command == Command::audit);
    CHECK(show.audit.action == AuditAction::show);
    CHECK(show.audit.paths == std::vector<std::string>{"runs/a"});
    CHECK(show.audit.job == "4711");
    CHECK(show.audit.since == "2d");
    CHECK(parse({"audit", "verify", "--json"}).audit.json);
    CHECK(parse({"audit", "--help"}).command == Command::help);
    CHECK(contains(usage_error_of({"audit"}), "audit needs to know what to do"));
    CHECK(contains(usage_error_of({"audit", "burn"}), "burn: audit cannot do that"));
    CHECK(contains(usage_error_of({"audit", "verify", "--job", "1"}), "looks at whole trails"));
}

TEST_CASE("login takes an issuer, a client and a file, and no token on its command line") {
    const CommandLine login = parse({"login", "t.jwt", "--issuer", "https://i", "--client-id=c"});
    CHECK(login.command == Command::login);
    CHECK(login.login.issuer == "https://i");
    CHECK(login.login.client_id == "c");
    CHECK(login.login.scope == "openid");
    CHECK(login.program == std::vector<std::string>{"t.jwt"});
    for (const std::vector<std::string>& less :
         {std::vector<std::string>{"login"},
          {"login", "f"},
          {"login", "f", "--issuer", "https://i"},
          {"login", "--issuer", "https://i", "--client-id", "c"}})
        CHECK(contains(usage_error_of(less), "login needs an issuer"));
    CHECK(contains(usage_error_of({"login", "f", "--token", "x"}), "--token"));
}

TEST_CASE("render knows its targets, and which options are whose") {
    const CommandLine slurm =
        parse({"render", "--textfile-dir", "/t", "slurm", "a.sh", "-o", "out", "--force"});
    CHECK(slurm.command == Command::render);
    CHECK(slurm.render.target == RenderTarget::slurm);
    CHECK(slurm.render.files == std::vector<std::string>{"a.sh"});
    CHECK(slurm.render.folder == "out");
    CHECK(slurm.render.textfile_dir == "/t");
    CHECK(slurm.render.job_mapping_dir == "/run/autolaunch/gpu-jobs");
    CHECK(slurm.render.overwrite);
    CHECK(parse({"render", "alertmanager", "--site=draft.yaml"}).render.site_file == "draft.yaml");
    CHECK(parse({"render", "grafana", "--json"}).render.json);
    CHECK(parse({"render", "--help"}).command == Command::help);
    CHECK(contains(usage_error_of({"render"}), "render needs to know for what"));
    CHECK(contains(usage_error_of({"render", "promtheus"}), "did you mean prometheus?"));
    CHECK(contains(usage_error_of({"render", "nagios"}), "one of prometheus, alertmanager"));
    CHECK(contains(usage_error_of({"render", "grafana", "--site", "x"}),
                   "--site does not go with render grafana"));
    CHECK(contains(usage_error_of({"render", "slurm", "--force"}), "goes with --output DIR"));
}

TEST_CASE("policy has three words, and options in any place") {
    const CommandLine render = parse({"policy", "--site", "draft.yaml", "render", "slurm", "out"});
    CHECK(render.command == Command::policy);
    CHECK(render.policy.action == PolicyAction::render_slurm);
    CHECK(render.policy.folder == "out");
    CHECK(render.policy.site_file == "draft.yaml");
    CHECK(parse({"policy", "show", "--json"}).policy.json);
    CHECK(parse({"policy", "diff", "--site=draft.yaml"}).policy.action == PolicyAction::diff);
    CHECK(parse({"policy", "--help"}).command == Command::help);
    CHECK(contains(usage_error_of({"policy"}), "policy needs to know what to do"));
    CHECK(contains(usage_error_of({"policy", "load"}), "load: policy cannot do that"));
    CHECK(contains(usage_error_of({"policy", "render"}), "autolaunch policy render slurm DIR"));
    CHECK(contains(usage_error_of({"policy", "render", "pbs", "out"}), "render slurm DIR"));
    CHECK(contains(usage_error_of({"policy", "render", "slurm", "out", "--json"}), "writes files"));
    CHECK(contains(usage_error_of({"policy", "show", "x"}), "x: policy show takes options alone"));
    const CommandLine firewall = parse({"policy", "render", "nftables", "out", "--interface", "ib0",
                                        "--network", "nodes=a", "--network", "admins=b"});
    CHECK(firewall.policy.action == PolicyAction::render_nftables);
    CHECK(firewall.policy.interface == "ib0");
    CHECK(firewall.policy.networks == std::vector<std::string>{"nodes=a", "admins=b"});
    CHECK(contains(usage_error_of({"policy", "show", "--interface", "ib0"}),
                   "--interface and --network go with policy render nftables alone"));
    // There is no way to name another file for a job.
    CHECK(contains(usage_error_of({"--site", "mine.yaml", "x"}), "--site"));
    CHECK(contains(usage_error_of({"plan", "--site", "mine.yaml", "x"}), "--site"));
}

}  // namespace cli_options_test
