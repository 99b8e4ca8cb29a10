// What sbatch gets for a spec: lint finds nothing in it, reading it gives the request again, what
// cannot be said in a #SBATCH line is refused at its place, and the stored spec reads as the spec.

#include "submission/batch_request.hpp"
#include "submission/data_nodes.hpp"
#include "submission/job_end.hpp"
#include "submission/judge_cluster.hpp"
#include "submission/staging_job.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "lint/lint.hpp"
#include "lint/sbatch_script.hpp"
#include "spec/stored_spec.hpp"
#include "spec_files.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include <chrono>
#include <ctime>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace submission_test {

using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

using Environment = std::map<std::string, std::string>;

SpecResult load_for_later(const std::string& text, std::vector<std::string> overrides = {},
                          Environment environment = {}) {
    return load_spec({.file = "t.yaml",
                      .overrides = std::move(overrides),
                      .environment = std::move(environment),
                      .base = {},
                      .text = text,
                      .for_later = true});
}

std::vector<std::string> lines_of(const std::vector<SpecError>& errors) {
    std::vector<std::string> lines;
    for (const auto& error : errors)
        lines.push_back(to_string(error));
    return lines;
}

BatchPlace place() {
    return {.folder = "/home/amy/my runs",
            .stored_spec = "/home/amy/my runs/runs/submitted/gpt/spec.yaml",
            .autolaunch = "/usr/local/bin/autolaunch"};
}

BatchRequest request_of(const std::string& text, std::vector<std::string> overrides = {},
                        Environment environment = {}) {
    const SpecResult read = load_for_later(text, std::move(overrides), std::move(environment));
    REQUIRE(lines_of(read.errors) == std::vector<std::string>{});
    return batch_request(read, place());
}

std::string first_error(const std::string& text, std::vector<std::string> overrides = {}) {
    SpecResult read = load_for_later(text, std::move(overrides));
    if (read.errors.empty())
        read.errors = batch_request(read, place()).errors;
    return read.errors.empty() ? "" : to_string(read.errors[0]);
}

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

std::vector<std::string> lint_lines(const BatchRequest& request, const JobSpec& spec) {
    LintRequest asked;
    asked.file = "job.sh";
    asked.text = render_batch_script(request.script);
    asked.resources_of = [&](const std::string& file) {
        CHECK(file == place().stored_spec);
        return std::optional(spec.resources);
    };
    std::vector<std::string> lines;
    for (const auto& finding : lint(asked))
        lines.push_back(finding.rule + ": " + finding.message);
    return lines;
}

// ---- random specs
// --------------------------------------------------------------------------------

class Dice {
public:
    explicit Dice(unsigned seed) : engine_(seed) {}
    int upto(int most) { return std::uniform_int_distribution<>(0, most)(engine_); }
    bool maybe() { return upto(1) == 1; }
    template <class T>
    const T& one_of(const std::vector<T>& all) {
        return all[static_cast<std::size_t>(upto(static_cast<int>(all.size()) - 1))];
    }
    /// What a person might write, and what nobody does: blanks, #, UTF-8, all that may stand there.
    std::string word() {
        static const std::string kBytes = "abcXYZ019_-.,:/@%+=[]*()&|!? #;<>~^{}\xC3\xA9";
        std::string text = "w";
        for (int i = upto(12); i > 0; --i) {
            const char c =
                kBytes[static_cast<std::size_t>(upto(static_cast<int>(kBytes.size()) - 3))];
            text += c;
        }
        return upto(9) == 0 ? text + "\xC3\xA9" : text;
    }

private:
    std::mt19937 engine_;
};

std::string in_yaml(const std::string& text) {
    std::string out = "\"";
    for (const char c : text)
        out += (c == '"' || c == '\\') ? std::string("\\") + c : std::string(1, c);
    return out + '"';
}

std::string random_spec(Dice& dice) {
    std::string text =
        "trainer: {command: [python3, train.py]}\nslurm_config:\n  array_throttle: \n";
    const auto key = [&](const std::string& name, const std::string& value) {
        if (dice.maybe())
            text += "  " + name + ": " + value + '\n';
    };
    for (const char* name :
         {"job_name", "partition", "account", "qos", "constraint", "reservation", "nodelist",
          "exclude", "mail_user", "mail_type", "licenses", "switches", "conda"})
        key(name, in_yaml(dice.word()));
    key("time_limit",
        dice.one_of<std::string>({"\"1:30:00\"", "2-00:00:00", "5", "UNLIMITED", "\"10:00\""}));
    key("nodes", std::to_string(1 + dice.upto(63)));
    key("cpus_per_task", std::to_string(1 + dice.upto(63)));
    text += dice.one_of<std::string>({"", "  gpus_per_node: 8\n", "  gres: \"gpu:a100:4\"\n"});
    key("mem", "64G");
    key("exclusive", "true");
    key("requeue", dice.one_of<std::string>({"true", "false"}));
    key("signal",
        dice.one_of<std::string>({"TERM@120", "USR1@300", "SIGUSR1", "R:TERM@60", "10@90"}));
    if (dice.maybe())
        text += "  array: " + dice.one_of<std::string>({"0-9", "\"1,3,5\"", "0-99:5", "7"}) +
                "\n  output: logs-%A_%a.out\n";
    else
        key("output", "out-%j.log");
    key("dependency",
        dice.one_of<std::string>({"afterok:4711", "singleton", "\"after:7+10,afterany:8:9_3\"",
                                  "\"afternotok:1?afterok:2\""}));
    key("modules", "[" + in_yaml(dice.word()) + ", cuda/12.4]");
    key("setup", "[\"export OMP_PROC_BIND=close\", \"# exec srun autolaunch\", \"ulimit -c 0\"]");
    key("extra_args", dice.one_of<std::string>({"[\"--comment=a b\"]",
                                                "[\"--comment x\", --contiguous, --nice=5]",
                                                "[--hint, nomultithread]"}));
    if (dice.maybe() && !contains(text, "  nodes:"))
        text += "resource_management: {cpu_cores_per_gpu: 4, nodes: " +
                dice.one_of<std::string>({"2", "{min: 2, max: 4, spares: 1}", "{max: 3, min: 1}"}) +
                "}\n";
    if (dice.maybe())
        text += "restart: {grace_period: 90s}\n";
    return text;
}

}  // namespace

TEST_CASE("what is rendered for any spec has no findings and reads back as the request") {
    int rendered = 0;
    for (unsigned seed = 0; seed < 4000; ++seed) {
        Dice dice(seed);
        const std::string text = random_spec(dice);
        CAPTURE(seed);
        CAPTURE(text);
        const SpecResult read = load_for_later(text);
        REQUIRE(lines_of(read.errors) == std::vector<std::string>{});
        const BatchRequest request = batch_request(read, place());
        REQUIRE(lines_of(request.errors) == std::vector<std::string>{});
        const std::string script = render_batch_script(request.script);
        CAPTURE(script);
        REQUIRE(read_batch_script(script) == request.script);
        REQUIRE(lint_lines(request, read.spec) == std::vector<std::string>{});
        const SbatchScript parsed = parse_sbatch_script(script);
        const SlurmSpec& asked = read.spec.slurm;
        REQUIRE(parsed.unknown.empty());
        const std::map<std::string, std::string> texts = {{"partition", asked.partition},
                                                          {"account", asked.account},
                                                          {"qos", asked.qos},
                                                          {"constraint", asked.constraint},
                                                          {"reservation", asked.reservation},
                                                          {"nodelist", asked.nodelist},
                                                          {"exclude", asked.exclude},
                                                          {"mail-user", asked.mail_user},
                                                          {"licenses", asked.licenses},
                                                          {"switches", asked.switches},
                                                          {"time", asked.time_limit},
                                                          {"array", asked.array},
                                                          {"dependency", asked.dependency},
                                                          {"output", asked.output}};
        for (const auto& [name, value] : texts)
            REQUIRE(parsed.text(name) == value);
        if (asked.nodes)
            REQUIRE(parsed.nodes() == *asked.nodes);
        REQUIRE(parsed.text("chdir") == place().folder);
        ++rendered;
    }
    CHECK(rendered == 4000);
}

TEST_CASE("a small spec becomes a script that a person would write") {
    const BatchRequest request = request_of(R"(
trainer: {command: [python3, train.py]}
slurm_config: {job_name: gpt, partition: gpu, time_limit: "1-00:00:00", modules: [cuda/12.4], venv: .venv, setup: [ulimit -c 0]}
resource_management: {nodes: 4, gpus_per_node: 8, cpu_cores_per_gpu: 8}
)");
    CHECK(render_batch_script(request.script) == R"(#!/bin/bash -l
# By autolaunch submit -c t.yaml; the spec as it was then is
# /home/amy/my runs/runs/submitted/gpt/spec.yaml
#SBATCH --job-name=gpt
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=64
#SBATCH --gpus-per-node=8
#SBATCH --partition=gpu
#SBATCH --time=1-00:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --chdir="/home/amy/my runs"

set -e
module load cuda/12.4
source '/home/amy/my runs/.venv/bin/activate'
# setup, lines: 1
ulimit -c 0
exec srun --cpus-per-task=64 --wait=60 /usr/local/bin/autolaunch -c '/home/amy/my runs/runs/submitted/gpt/spec.yaml'
)");
    CHECK(request.notes.empty());
}

TEST_CASE("the signal before the time limit comes from what saves take") {
    const std::string text = "trainer: {command: [a]}\nslurm_config: {time_limit: \"1:00:00\"}\n";
    const auto signal = [&](std::vector<std::string> overrides, std::optional<int> save_seconds) {
        BatchPlace here = place();
        if (save_seconds)
            here.save = std::chrono::seconds(*save_seconds);
        const BatchScript script =
            batch_request(load_for_later(text, std::move(overrides)), here).script;
        const BatchOption* option = script.option("signal");
        return option == nullptr ? std::string() : option->value.value_or("");
    };
    CHECK(signal({}, {}) == "TERM@120");
    CHECK(signal({}, 41) == "TERM@120");
    CHECK(signal({}, 300) == "TERM@420");
    CHECK(signal({"restart.grace_period=200s"}, {}) == "TERM@300");
    CHECK(signal({"slurm_config.signal=USR1@90"}, 300) == "USR1@90");
    const std::string copies = "storage={stage_out: [{from: a, to: /b}], stage_out_time: 10m}";
    CHECK(signal({copies}, 300) == "TERM@1020");
    CHECK(signal({copies}, {}) == "TERM@720");
    CHECK(contains(
        batch_request(load_for_later(text, {copies, "slurm_config.time_limit=10"}), place())
            .errors.at(0)
            .message,
        "is 600 s, and slurm_config.time_limit 600 s: raise the limit"));
    CHECK(signal({"slurm_config.time_limit=3"}, {}).empty());
    BatchPlace here = place();
    const auto short_one = batch_request(load_for_later(text, {"slurm_config.time_limit=3"}), here);
    REQUIRE(short_one.notes.size() == 1);
    CHECK(contains(short_one.notes[0], "no --signal: slurm_config.time_limit is 180 s"));
    const auto own = batch_request(load_for_later(text, {"slurm_config.signal=USR1@90"}), here);
    CHECK(contains(render_batch_script(own.script),
                   "autolaunch --signals-to-handle SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1 -c"));
}

TEST_CASE("a job that may lose nodes is asked for with all of them and is not ended for one") {
    const BatchRequest request = request_of(
        "trainer: {command: [a]}\nresource_management: {nodes: {min: 2, max: 4, spares: 1}}\n");
    const std::string text = render_batch_script(request.script);
    CHECK(contains(text, "#SBATCH --nodes=5\n"));
    CHECK(contains(text, "#SBATCH --no-kill\n"));
    CHECK(contains(text, "exec srun --no-kill --wait=0 --kill-on-bad-exit=0 "));
}

TEST_CASE("what no #SBATCH line can hold is refused at its place") {
    const auto with = [](const std::string& line) {
        return first_error("trainer: {command: [a]}\nslurm_config:\n  " + line + "\n");
    };
    CHECK(contains(with("job_name: \"a\\nb\""),
                   "t.yaml:3:13: slurm_config.job_name: holds a line's end"));
    CHECK(contains(with("account: \"a'b\""), "t.yaml:3:12: slurm_config.account: holds ',"));
    CHECK(contains(with("account: 'a\"b'"), "slurm_config.account: holds \","));
    CHECK(contains(with("qos: 'a\\b'"), "slurm_config.qos: holds \\,"));
    CHECK(contains(with("comment: x"), "t.yaml:3:3: slurm_config.comment: unknown key"));
    CHECK(contains(with("partition: \"a\\x01\""),
                   "slurm_config.partition: holds the control character \\x01"));
    CHECK(contains(with("output: 'logs/$USER.out'"), "holds $: no shell reads #SBATCH lines"));
    CHECK(contains(with("output: 'logs/${SLURM_JOB_ID}.out'"), "in output and error write %j"));
    CHECK(contains(with("output: 'logs/%j/out'"), "Slurm makes no folders"));
    CHECK(contains(with("array: 9-0"),
                   "t.yaml:3:10: slurm_config.array: expects numbers up to 4000000"));
    CHECK(contains(with("array: 0-9%0"), "expects a number behind %"));
    CHECK(contains(with("{array: 0-9, output: x.out}"), "would write to one file"));
    CHECK(contains(with("array_throttle: 3"), "stands without array"));
    CHECK(contains(with("dependency: afterokay:3"),
                   "t.yaml:3:15: slurm_config.dependency: Slurm knows no dependency \"afterokay\"; "
                   "did you mean afterok?"));
    CHECK(contains(with("dependency: afterok"), "afterok needs a job"));
    CHECK(contains(with("dependency: afterok:x"), "\"x\" is no job's number"));
    CHECK(contains(with("dependency: \"after:1,afterok:2?singleton\""),
                   "Slurm takes one of the two"));
    CHECK(contains(with("signal: B:USR1@60"), "leave B: out"));
    CHECK(contains(with("signal: USR1@70000"), "from 0 to 65535"));
    CHECK(contains(with("extra_args: [--nodes-per-task=3]"),
                   "sbatch knows no option --nodes-per-task"));
    CHECK(contains(with("{partition: a, extra_args: [--partition=b]}"),
                   "--partition stands beside slurm_config.partition"));
    CHECK(contains(with("extra_args: [--wrap=x]"), "--wrap cannot be asked for here"));
    CHECK(contains(with("extra_args: [file]"), "\"file\" is no option"));
    CHECK(contains(with("modules: [\"$(reboot)\"]"),
                   "slurm_config.modules: holds a quote or a character"));
    CHECK(contains(with("{venv: a, conda: b}"), "stands beside venv"));
    CHECK(contains(with("{gres: \"gpu:2\", gpus_per_node: 2}"), "stands beside gres"));
    CHECK(contains(first_error("trainer: {command: [a]}\n", {"slurm_config.qos=\"a'b\""}),
                   "override slurm_config.qos="));
}

TEST_CASE("a working directory that no #SBATCH line can hold is refused") {
    BatchPlace here = place();
    here.folder = "/home/o'brien";
    const auto request = batch_request(load_for_later("trainer: {command: [a]}\n"), here);
    CHECK(contains(join(lines_of(request.errors), "\n"),
                   "the working directory: /home/o'brien holds '"));
}

TEST_CASE("what only the job knows is not guessed") {
    const std::string spec =
        "trainer: {command: [a]}\nresource_management: {nodes: \"${SLURM_NNODES}\"}\n";
    CHECK(contains(first_error(spec),
                   "t.yaml:2:30: resource_management.nodes: has a variable that only the job has"));
    CHECK(first_error(spec, {"slurm_config.nodes=4"}).empty());
    CHECK(contains(render_batch_script(request_of(spec, {}, {{"SLURM_NNODES", "4"}}).script),
                   "--nodes=4\n"));
    const std::string guessed =
        "trainer: {command: [a]}\nresource_management: {nodes: \"${SLURM_NNODES:-2}\"}\n";
    CHECK(contains(render_batch_script(request_of(guessed).script), "--nodes=2\n"));
}

TEST_CASE("arrays are counted as Slurm counts them") {
    std::string why;
    CHECK(parse_array("0-9", why)->count == 10);
    CHECK(parse_array("0-9", why)->highest == 9);
    CHECK(parse_array("0-9:4", why)->count == 3);
    CHECK(parse_array("0-9:4", why)->highest == 8);
    CHECK(parse_array("1,3,5-6%2", why)->count == 4);
    CHECK(parse_array("1,3,5-6%2", why)->throttle == 2);
    for (const char* wrong :
         {"", "a", "1-", "-1", "1--2", "3:2", "1-9:0", "5000000", "1,,2", "1%x", "1:2-3"})
        CHECK_FALSE(parse_array(wrong, why));
}

namespace {

/// The stored spec, read again in the job.
SpecResult read_again(const SpecResult& read, Environment in_job) {
    return load_spec({.file = "stored.yaml",
                      .overrides = {},
                      .environment = std::move(in_job),
                      .base = {},
                      .text = to_yaml(read.stored.root)});
}

}  // namespace

TEST_CASE("the stored spec is the spec as it was, whatever changes after") {
    const std::string text = R"(
trainer:
  command: [python3, train.py, --data, "${DATA}", --name, "${NAME:-plain}", --job, "${SLURM_JOB_ID:-none}"]
  env: {SEED: "${SEED}", YES: "yes", HF_TOKEN: "${HF_TOKEN}", SHELL_LINE: "$${HOME} $HOME", ODD: "a$${b"}
  config:
    width: "${WIDTH}"
    plain: ${WIDTH}
    rest: {text: "007", list: [1, "1", 1.5, null, ~, {a: b}], empty: {}, none: [], number: 1e-4, word: on, quoted: "on"}
    "a key": "two\nlines\t\"x\" \\"
    uni: "é…"
    folded: >
      a
      b
resource_management: {ranks_per_node: "${WIDTH}", nodes: "${SLURM_NNODES}"}
restart: {max_restarts: "${WIDTH}"}
model: {_target_: a.b, hidden: "${model.width}", name: "x-${model.name}-${SLURM_JOB_ID}", cost: "$${5}"}
checkpoint: {enabled: true, checkpoint_dir: "ckpt/${NAME:-plain}"}
monitoring: {alerting: {channels: [{type: slack, webhook_url: "${SLACK_WEBHOOK_URL}"}]}}
)";
    const Environment then = {{"DATA", "/data/${x} $"},
                              {"SEED", "7"},
                              {"WIDTH", "4"},
                              {"HF_TOKEN", "hf_abcdefghijklmnopqrstuvwxyz0123456789"}};
    const SpecResult read = load_for_later(text, {"restart.max_restarts=5"}, then);
    REQUIRE(join(lines_of(read.errors), "\n") == "");
    const std::string stored = to_yaml(read.stored.root);
    CAPTURE(stored);
    CHECK_FALSE(contains(stored, "hf_abc"));
    CHECK(read.stored.secret == std::vector<std::string>{"HF_TOKEN"});
    CHECK(read.stored.of_job == std::vector<std::string>{"SLURM_JOB_ID", "SLURM_NNODES"});

    const Environment in_job = {{"SLURM_JOB_ID", "12"},
                                {"SLURM_NNODES", "1"},
                                {"HF_TOKEN", "hf_abcdefghijklmnopqrstuvwxyz0123456789"},
                                {"DATA", "other"},
                                {"WIDTH", "9"}};
    const SpecResult again = read_again(read, in_job);
    REQUIRE(lines_of(again.errors) == std::vector<std::string>{});
    Environment both = then;
    both.merge(Environment(in_job));
    const SpecResult whole = load_spec({.file = "t.yaml",
                                        .overrides = {"restart.max_restarts=5"},
                                        .environment = both,
                                        .base = {},
                                        .text = text});
    REQUIRE(lines_of(whole.errors) == std::vector<std::string>{});
    CHECK(again.spec.trainer_config == whole.spec.trainer_config);
    CHECK(again.spec.trainer.command == whole.spec.trainer.command);
    CHECK(again.spec.trainer.env == whole.spec.trainer.env);
    CHECK(again.spec.restart.max_restarts == 5);
    CHECK(again.spec.resources.ranks_per_node == 4);
    CHECK(again.spec.checkpoint.checkpoint_dir == "ckpt/plain");
}

TEST_CASE("specs that people have are stored and read back as they are") {
    namespace fs = std::filesystem;
    int read_files = 0;
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(AUTOLAUNCH_SOURCE_DIR) / "configs")) {
        if (entry.path().extension() != ".yaml")
            continue;
        CAPTURE(entry.path().string());
        const SpecResult read = load_spec({.file = entry.path(),
                                           .overrides = {},
                                           .environment = {},
                                           .base = {},
                                           .text = {},
                                           .for_later = true});
        if (!read.errors.empty())
            continue;  // a profile, or an administrator's
        const Environment in_job = {{"SLURM_JOB_ID", "12"}, {"SLURM_NNODES", "2"}};
        const SpecResult again = read_again(read, in_job);
        CHECK(lines_of(again.errors) == std::vector<std::string>{});
        const SpecResult whole =
            load_spec({.file = entry.path(), .overrides = {}, .environment = in_job, .base = {}});
        CHECK(again.spec.trainer_config == whole.spec.trainer_config);
        CHECK(again.spec.trainer.command == whole.spec.trainer.command);
        ++read_files;
    }
    CHECK(read_files > 0);
}

TEST_CASE("random texts survive: quotes, references, blanks, whatever stands beside what") {
    static const std::vector<std::string> kParts = {
        "$",        "{", "}",  "$${", "${A}",   "${SLURM_X}", "${SLURM_X:-d${A}}",
        "${NO:-x}", "a", " ",  ":",   "#",      "\"",         "'",
        "\\",       "-", "\n", "é",   "${m.n}", "1",          ","};
    const Environment then = {{"A", "v$"}, {"SLURM_X", "job"}};
    int same = 0;
    for (unsigned seed = 0; seed < 4000; ++seed) {
        Dice dice(seed);
        std::string value;
        for (int i = 1 + dice.upto(5); i > 0; --i)
            value += dice.one_of(kParts);
        std::string escaped;
        for (const char c : in_yaml(value))
            escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
        const std::string text = "trainer: {command: [a], config: {k: " + escaped + "}}\n";
        CAPTURE(text);
        const SpecResult read = load_for_later(text, {}, then);
        const SpecResult whole = load_spec(
            {.file = "t.yaml", .overrides = {}, .environment = then, .base = {}, .text = text});
        if (!read.errors.empty())
            continue;  // no closing }, or a $ in front of what the job replaces
        REQUIRE(lines_of(whole.errors) == std::vector<std::string>{});
        const SpecResult again = read_again(read, then);
        REQUIRE(lines_of(again.errors) == std::vector<std::string>{});
        REQUIRE(again.spec.trainer_config == whole.spec.trainer_config);
        ++same;
    }
    CHECK(same > 1500);
}

TEST_CASE("no secret's value comes into the script") {
    BatchPlace here = place();
    here.words = {"train", "--api-key", "Zx81-kRt5-9pQm-77aB"};
    SpecResult read = load_for_later("trainer: {command: [a]}\n");
    CHECK(contains(join(lines_of(batch_request(read, here).errors), "\n"),
                   "the command line: PROGRAM's arguments hold a secret"));
    here.words = {"train", "--lr", "Zx81-kRt5-9pQm-77aB"};
    CHECK(batch_request(read, here).errors.empty());
    read.spec.secrets = {"Zx81-kRt5-9pQm-77aB"};  // what a variable of the environment holds
    CHECK(batch_request(read, here).errors.size() == 1);
}

TEST_CASE("no secret's value comes into the stored spec") {
    const auto refusal = [](const std::string& text, std::vector<std::string> overrides = {}) {
        return first_error(text, std::move(overrides));
    };
    const std::string value = "Zx81-kRt5-9pQm-77aB";
    CHECK(contains(refusal("trainer: {command: [a], env: {DB_PASSWORD: " + value + "}}\n"),
                   "t.yaml:1:44: trainer.env.DB_PASSWORD: holds a secret"));
    CHECK(contains(refusal("trainer: {command: [a, --token, " + value + "]}\n"),
                   "trainer.command[2]: holds a secret"));
    CHECK(contains(
        refusal("trainer: {command: [a], env: {X: hf_abcdefghijklmnopqrstuvwxyz0123456789}}\n"),
        "holds a secret"));
    CHECK(contains(
        refusal("trainer: {command: [a], env: {DB_PASSWORD: \"${DB_PASSWORD:-" + value + "}\"}}\n"),
        "holds a secret"));
    const std::string by_override =
        refusal("trainer: {command: [a]}\n", {"trainer.env.DB_PASSWORD=" + value});
    CHECK(contains(by_override, "holds a secret"));
    CHECK_FALSE(contains(by_override, value));
    CHECK(contains(refusal("trainer: {command: [a], env: {DB_PASSWORD: hunter}}\n"),
                   "holds a secret"));
    CHECK(refusal("trainer: {command: [a], env: {DB_PASSWORD: ''}}\n").empty());
    CHECK(contains(refusal("trainer: {command: [a], config: {passwords: {db: " + value + "}}}\n"),
                   "trainer.config.passwords.db: holds a secret"));
    CHECK(
        refusal(
            "trainer: {command: [a]}\nsecurity: {authorization: {rbac_enabled: true, user_groups: "
            "[{name: ml_engineers_2026}]}}\n")
            .empty());
    CHECK(refusal("trainer: {command: [a], config: {use_auth_token: true, pad_token: \"<pad>\"}}\n")
              .empty());
    CHECK(refusal("trainer: {command: [a]}\nsecrets: {HF_TOKEN: {file: ~/.hf_token_of_amy_2026}}\n")
              .empty());
    CHECK(contains(
        first_error("trainer: {command: [a]}\nslurm_config: {account: \"${DB_PASSWORD:-x}\"}\n"),
        "slurm_config.account: has a variable that holds a secret"));
}

// ---- the judge of the cluster's answers
// ----------------------------------------------------------

namespace {

const char kConfig[] =
    "Configuration data as of 2026-11-29T06:44:00\n"
    "AccountingStorageEnforce = associations,limits,qos\n"
    "AccountingStorageType   = accounting_storage/slurmdbd\n"
    "KillWait                = 30 sec\n"
    "MaxArraySize            = 1001\n"
    "MinJobAge               = 300 sec\n"
    "PreemptMode             = REQUEUE\n"
    "PreemptType             = preempt/partition_prio\n"
    "RequeueExit             = 75\n"
    "RequeueExitHold         = (null)\n";
const char kPartitions[] =
    "PartitionName=main AllowGroups=ALL AllowAccounts=ml,ops AllowQos=ALL Default=YES "
    "DefaultTime=01:00:00 "
    "MaxNodes=8 MaxTime=1-00:00:00 MinNodes=2 Nodes=n[1-10] PreemptMode=REQUEUE State=UP "
    "TotalNodes=10\n"
    "PartitionName=scavenge AllowAccounts=ALL AllowQos=low Default=NO DefaultTime=NONE "
    "MaxNodes=UNLIMITED "
    "MaxTime=UNLIMITED MinNodes=0 Nodes=n[1-4] PreemptMode=CANCEL State=DRAIN TotalNodes=4\n";

std::string slurm_time_at(std::chrono::system_clock::time_point at) {
    const std::time_t whole = std::chrono::system_clock::to_time_t(at);
    std::tm local{};
    ::localtime_r(&whole, &local);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local);
    return text;
}

ClusterAnswers answers() {
    ClusterAnswers all;
    all.config = kConfig;
    all.partitions = kPartitions;
    all.reservations = "No reservations in the system\n";
    all.associations =
        "Account|Partition|Def QOS|QOS|MaxWall|MaxTRES|GrpTRES\nml||normal|high,normal|||\n";
    all.qos =
        "Name|MaxWall|MaxTRES|MaxTRESPU|GrpTRES\nnormal|12:00:00|node=6|gres/gpu=16|\nhigh||||\n";
    all.user = "amy";
    return all;
}

std::string judged(const std::string& slurm_config, const ClusterAnswers& told = answers(),
                   std::optional<std::chrono::milliseconds> save = {}) {
    const SpecResult read =
        load_for_later("trainer: {command: [a]}\nslurm_config:\n" + slurm_config);
    REQUIRE(join(lines_of(read.errors), "\n") == "");
    const BatchRequest request = batch_request(read, place());
    REQUIRE(join(lines_of(request.errors), "\n") == "");
    const ClusterVerdict verdict =
        judge_cluster(read, request, told, save, std::chrono::system_clock::now());
    std::string text;
    for (const SpecError& error : verdict.refused)
        text += "refused " + to_string(error) + "\n";
    for (const SpecError& error : verdict.warnings)
        text += to_string(error) + "\n";
    for (const std::string& what : verdict.unknown)
        text += "unknown " + what + "\n";
    return text;
}

}  // namespace

TEST_CASE("a request that fits the cluster is not commented on") {
    CHECK(judged("  {nodes: 4, time_limit: 600, gpus_per_node: 4}\n") == "");
}

TEST_CASE("each limit that a request breaks is said with its line") {
    CHECK(judged("  nodes: 4\n  array: 0-1001\n") ==
          "refused t.yaml:4:10: slurm_config.array: goes up to 1001, and MaxArraySize of this "
          "cluster is 1001: its "
          "numbers end at 1000\n");
    CHECK(contains(judged("  nodes: 4\n  time_limit: 2-00:00:00\n  qos: high\n"),
                   "t.yaml:4:15: slurm_config.time_limit: 2-00:00:00 is longer than MaxTime of "
                   "partition main, "
                   "1-00:00:00: Slurm refuses the job, or never starts it"));
    CHECK(contains(judged("  nodes: 4\n  time_limit: UNLIMITED\n"),
                   "UNLIMITED is longer than MaxTime"));
    CHECK(contains(
        judged("  nodes: 9\n  qos: high\n"),
        "t.yaml:3:10: slurm_config.nodes: 9 nodes are more than MaxNodes of partition main, 8"));
    CHECK(contains(judged("  nodes: 1\n"), "1 nodes are fewer than MinNodes of partition main, 2"));
    const std::string scavenge = judged("  nodes: 5\n  partition: scavenge\n  qos: high\n");
    CHECK(contains(scavenge, "t.yaml:4:14: slurm_config.partition: partition scavenge is DRAIN"));
    CHECK(contains(scavenge, "5 nodes are more than there are in partition scavenge, 4"));
    CHECK(contains(scavenge, "slurm_config.qos: partition scavenge is closed to QoS high"));
    CHECK(contains(scavenge, "PreemptMode of partition scavenge is CANCEL"));
    CHECK(contains(judged("  nodes: 2\n  requeue: false\n"),
                   "slurm_config.requeue: is false, and PreemptMode of partition main is REQUEUE"));
    CHECK(contains(judged("  nodes: 2\n  requeue: false\n"),
                   "a job that ends with 75 stays ended, although RequeueExit = 75"));
    CHECK(contains(judged("  nodes: 2\n  account: guests\n"),
                   "partition main is closed to account guests"));
    CHECK(contains(judged("  nodes: 2\n  account: guests\n"),
                   "user amy has no association in account guests"));
    CHECK(contains(judged("  nodes: 2\n  qos: urgent\n"),
                   "user amy may not use QoS urgent in account ml, but high, normal"));
    CHECK(contains(judged("  nodes: 2\n  time_limit: 13:00:00\n"),
                   "13:00:00 is longer than MaxWall of QoS normal, 12:00:00"));
    CHECK(contains(judged("  nodes: 3\n  gpus_per_node: 8\n"),
                   "t.yaml:4:18: slurm_config.gpus_per_node: 24 GPUs in all are more than "
                   "MaxTRESPU of QoS normal, 16"));
    CHECK(
        contains(judged("  nodes: 7\n"), "7 nodes in all are more than MaxTRES of QoS normal, 6"));
    ClusterAnswers tight = answers();
    tight.associations =
        "Account|Partition|Def QOS|QOS|MaxWall|MaxTRES|GrpTRES\nml||normal|high,normal||cpu=64|mem="
        "500G\n";
    CHECK(judged("  nodes: 4\n  cpus_per_task: 16\n  mem: 125G\n", tight) == "");
    CHECK(contains(judged("  nodes: 4\n  cpus_per_task: 17\n", tight),
                   "t.yaml:4:18: slurm_config.cpus_per_task: 68 CPUs in all are more than MaxTRES "
                   "of account ml, 64"));
    CHECK(
        contains(judged("  nodes: 4\n  mem: 130000\n", tight),
                 "t.yaml:4:8: slurm_config.mem: 520000 MiB of memory in all are more than GrpTRES "
                 "of account ml, 512000"));
}

TEST_CASE("maintenance that begins inside the time limit is told of") {
    const auto now = std::chrono::system_clock::now();
    const auto with = [&](std::chrono::minutes from, std::chrono::minutes until,
                          const std::string& nodes) {
        ClusterAnswers told = answers();
        told.reservations = "ReservationName=yearly StartTime=" + slurm_time_at(now + from) +
                            " EndTime=" + slurm_time_at(now + until) + " Nodes=" + nodes +
                            " NodeCnt=1 Flags=MAINT,SPEC_NODES State=INACTIVE\n";
        return told;
    };
    using std::chrono::minutes;
    const std::string wanted = "  nodes: 4\n  time_limit: 600\n";
    const std::string soon = judged(wanted, with(minutes(90), minutes(200), "n[1-8]"));
    CHECK(contains(soon, "t.yaml:4:15: slurm_config.time_limit: maintenance yearly begins on "));
    CHECK(contains(soon, "leaves fewer nodes than the job needs: it waits until "));
    CHECK(contains(soon, "a job of less than 1:"));
    CHECK(contains(judged(wanted, with(minutes(90), minutes(200), "n[1-3]")), "on 3 of 10 nodes"));
    CHECK(judged(wanted, with(minutes(900), minutes(990), "n[1-8]")).empty());
    CHECK(judged(wanted, with(minutes(90), minutes(200), "m[1-8]")).empty());
    CHECK(judged(wanted, with(minutes(-90), minutes(-10), "n[1-8]")).empty());
    CHECK(contains(judged(wanted, with(minutes(-90), minutes(10), "n[1-8]")),
                   "maintenance yearly lasts until "));
    CHECK(judged("  nodes: 4\n  time_limit: 600\n  reservation: yearly\n",
                 with(minutes(-90), minutes(10), "n[1-8]"))
              .empty());
    CHECK(contains(judged("  nodes: 4\n", with(minutes(30), minutes(90), "n[1-8]")),
                   "begins on"));  // DefaultTime
}

TEST_CASE("jobs that a dependency names must be there") {
    ClusterAnswers told = answers();
    told.jobs = {{"7", "slurm_load_jobs error: Invalid job id specified\n"},
                 {"8", "JobId=8 JobName=x\n"},
                 {"9", ""}};
    const std::string text = judged("  nodes: 4\n  dependency: \"afterok:7:8:9\"\n", told);
    CHECK(contains(text, "refused t.yaml:4:15: slurm_config.dependency: Slurm knows no job 7"));
    CHECK_FALSE(contains(text, "job 8"));
    CHECK(contains(text, "unknown whether job 9, which this one depends on, exists"));
}

TEST_CASE("what nobody answers is said to be unknown") {
    ClusterAnswers told = answers();
    told.partitions.reset();
    told.qos.reset();
    const std::string text = judged("  nodes: 4\n  array: 0-3\n", told);
    CHECK(contains(text, "unknown the partition's limits"));
    CHECK(contains(text, "unknown limits of QoS and account"));
    told = answers();
    told.reservations.reset();
    CHECK(contains(judged("  nodes: 4\n", told), "unknown maintenance"));
    told.config = "ClusterName = x\n";
    CHECK(contains(judged("  nodes: 4\n  array: 0-3\n", told), "unknown MaxArraySize"));
    CHECK(contains(judged("  nodes: 4\n", told), "unknown KillWait"));
}

TEST_CASE("a save that does not fit is told of where no signal comes before it") {
    CHECK(judged("  nodes: 4\n  time_limit: 600\n", answers(), std::chrono::seconds(41)).empty());
    CHECK(contains(judged("  nodes: 4\n  time_limit: 3\n", answers(), std::chrono::seconds(41)),
                   "a save takes 41 s, KillWait is 30 s: use --signal=TERM@120"));
}

TEST_CASE("nodes with the job's data are those where an earlier run had all of it") {
    StorageSpec storage;
    storage.stage_in = {
        {.from = "/shared/tokens", .name = "tokens", .verify = "", .unpack = ""},
        {.from = "https://h/base?sig=2", .name = "base", .verify = "", .unpack = ""}};
    const std::string staged = R"({"time": "t", "event": "data_staged", "name": "tokens"})"
                               "\n"
                               R"({"event": "data_staged", "name": "base"})";
    const std::string plan = R"({"nodes": {"names": ["n0", "n1", "-x", ""]}, "staging": {"items": [
            {"name": "tokens", "from": "/shared/tokens", "verify": "", "unpack": ""},
            {"name": "base", "from": "https://h/base?…", "verify": "", "unpack": ""}]}})";
    std::map<int, std::string> events = {
        {0, staged}, {1, staged.substr(0, staged.find('\n'))}, {2, staged}, {3, staged}};
    const auto nodes_of = [&](const std::string& text) {
        return nodes_with_data(
            text, [&](int node) { return events[node]; }, storage);
    };
    CHECK(nodes_of(plan) == std::vector<std::string>{"n0"});
    events[1] = staged + "\n{torn";
    CHECK(nodes_of(plan) == std::vector<std::string>{"n0", "n1"});
    storage.stage_in[0].verify = "SHA256SUMS";  // another version of it
    CHECK(nodes_of(plan).empty());
    for (const char* odd : {"", "[]", "{", R"({"staging": {"items": 1}, "nodes": {"names": 1}})",
                            R"({"staging": 1})"})
        CHECK(nodes_of(odd).empty());
}

TEST_CASE("nodes are preferred by features that are their names") {
    const std::vector<std::string> nodes = {"n1", "n2"};
    const std::string answer = "n1|a100,n1\nn1|a100,n1\nn2|n2\n";
    CHECK(preferred_features(nodes, answer, "22.05.8") == "n1|n2");
    CHECK(preferred_features(nodes, answer, "21.08.8").empty());
    CHECK(preferred_features(nodes, answer, "").empty());
    CHECK(preferred_features(nodes, "n1|n1\nn2|(null)\n", "23.11.1").empty());
    CHECK(preferred_features(nodes, "sinfo: error", "23.11.1").empty());
}

TEST_CASE("before a job there may be a small one that stages its data") {
    const std::string text =
        "trainer: {command: [/bin/true]}\nstorage: {stage_in: [{from: /d, as: d}]}\n"
        "slurm_config: {job_name: gpt, nodes: 4, gpus_per_node: 8, cpus_per_task: 16, mem: 0,\n"
        "  exclusive: true, partition: gpu, account: ml, time_limit: 2-00:00:00, modules: [cuda],\n"
        "  output: 'logs/%j.out', mail_type: END}\n";
    const BatchRequest job = request_of(text);
    StorageSpec storage;
    storage.stage_in.push_back({.from = "/d", .name = "d", .verify = {}, .unpack = {}});
    CHECK(why_no_staging_job(job.script, storage, false) == "");
    CHECK(contains(why_no_staging_job(job.script, storage, true), "this is an array"));
    CHECK(contains(why_no_staging_job(job.script, {}, false), "names nothing to stage"));
    const BatchScript script = staging_script(job.script, {"n1", "n2", "n3", "n5"}, storage, "/f");
    CHECK(render_batch_script(script) ==
          "#!/bin/bash -l\n"
          "# By autolaunch submit --stage-first: brings the data of the job of this spec\n"
          "#SBATCH --job-name=gpt-stage-in\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=1\n"
          "#SBATCH --cpus-per-task=1\n#SBATCH --mem=2G\n#SBATCH --time=60\n"
          "#SBATCH --no-requeue\n#SBATCH --open-mode=append\n#SBATCH --output=/f/stage-in.log\n"
          "#SBATCH --partition=gpu\n#SBATCH --account=ml\n#SBATCH --chdir=\"/home/amy/my runs\"\n"
          "#SBATCH --deadline=now+120minutes\n#SBATCH --nodelist=n[1-3,5]\n"
          "\nset -e\nmodule load cuda\n"
          "exec srun /usr/local/bin/autolaunch stage-in -c /f/spec.yaml\n");
    CHECK(read_batch_script(render_batch_script(script)) == script);
    storage.timeout = std::chrono::seconds(61);
    CHECK(staging_time(storage) == std::chrono::minutes(3));
    // What the job waits for may make the data.
    const BatchScript later = staging_script(
        request_of(text, {"slurm_config.dependency=afterok:7"}).script, {}, storage, "/f");
    CHECK(later.option("dependency")->value == "afterok:7");
    CHECK(later.option("deadline") == nullptr);
    CHECK(later.option("nodelist") == nullptr);
}

TEST_CASE("any bytes at all may be an answer") {
    for (unsigned seed = 0; seed < 300; ++seed) {
        Dice dice(seed);
        ClusterAnswers told = answers();
        for (auto* text :
             {&told.config, &told.partitions, &told.reservations, &told.associations, &told.qos})
            for (int i = dice.upto(6); i > 0; --i)
                (*text)->replace(
                    static_cast<std::size_t>(dice.upto(static_cast<int>((*text)->size()) - 1)), 1,
                    std::string(1, static_cast<char>(dice.upto(255))));
        judged("  nodes: 4\n  time_limit: 600\n  gpus_per_node: 4\n", told);
    }
}

TEST_CASE("the end of a job is told from Slurm's records of it") {
    JobEnd end;
    CHECK_FALSE(end.take("slurm_load_jobs error: Invalid job id specified\n"));
    CHECK_FALSE(end.is_over());
    CHECK(
        end.take("JobId=5 ArrayJobId=5 JobState=RUNNING ExitCode=0:0\nJobId=6 JobState=FAILED "
                 "ExitCode=3:0\n"));
    CHECK_FALSE(end.is_over());
    CHECK(end.take("JobId=5 ArrayJobId=5 JobState=COMPLETED ExitCode=0:0\n"));  // the other is
                                                                                // forgotten by now
    CHECK(end.is_over());
    CHECK(end.exit_code() == 3);
    CHECK(end.state() == "FAILED");
    const auto code = [](const std::string& line) {
        JobEnd one;
        one.take("JobId=1 " + line + "\n");
        return one.is_over() ? one.exit_code() : -1;
    };
    CHECK(code("JobState=COMPLETED ExitCode=0:0") == 0);
    CHECK(code("JobState=FAILED ExitCode=0:9") == 137);
    CHECK(code("JobState=CANCELLED ExitCode=0:15") == 143);
    CHECK(code("JobState=TIMEOUT ExitCode=0:0") == 1);
    CHECK(code("JobState=COMPLETING ExitCode=0:0") == -1);
    CHECK(code("JobState=PENDING ExitCode=0:0") == -1);
    CHECK(code("JobState=REQUEUED ExitCode=75:0") == -1);
    CHECK(parse_estimate("sbatch: Job 3 to start at 2026-11-29T06:40:00 using 32 processors on "
                         "nodes node[1-2] in "
                         "partition main\n")
              .nodes == "node[1-2]");
}

TEST_CASE("a pipeline's stages stand behind those that they come after") {
    const auto names = [](const std::string& text) {
        const SpecResult read = load_for_later(text);
        REQUIRE(join(lines_of(read.errors), "\n") == "");
        std::string order;
        for (const StageSpec& stage : read.spec.pipeline) {
            order += stage.name;
            for (const StageAfter& after : stage.after)
                order += "<" + after.how + ":" + after.stage;
            order += ' ';
        }
        return order;
    };
    CHECK(names("pipeline: [{name: a, spec: a.yaml}, {name: b, spec: b.yaml, after: ok}, {name: c, "
                "spec: c.yaml}]\n") == "a b<ok:a c ");
    CHECK(names("pipeline: [{name: z, spec: z.yaml, after: {y: any, x: notok}}, {name: y, spec: "
                "y.yaml, after: {x: corr}}, "
                "{name: x, spec: x.yaml}]\n") == "x y<corr:x z<any:y<notok:x ");
    const auto wrong = [](const std::string& text) {
        return first_error("pipeline: " + text + "\n");
    };
    CHECK(
        contains(wrong("[{name: a, spec: a, after: {b: ok}}, {name: b, spec: b, after: {a: ok}}]"),
                 "t.yaml:1:11: pipeline: goes round in a circle: each of a, b comes after"));
    CHECK(contains(wrong("[{name: a, spec: a, after: {a: ok}}]"), "goes round in a circle"));
    CHECK(contains(wrong("[{name: a, spec: a, after: ok}]"),
                   "pipeline[0].after: is about the stage before this one"));
    CHECK(contains(wrong("[{name: a, spec: a}, {name: b, spec: b, after: okay}]"),
                   "expected ok, any, notok or corr"));
    CHECK(contains(wrong("[{name: train, spec: a}, {name: b, spec: b, after: {trian: ok}}]"),
                   "no stage is called \"trian\"; did you mean train?"));
    CHECK(contains(wrong("[{name: a, spec: a}, {name: a, spec: b}]"), "is another stage's name"));
    CHECK(contains(wrong("[{name: \"a b\", spec: a}]"), "expected a name of letters"));
    CHECK(contains(wrong("[{name: a}]"), "expected a spec's file"));
    CHECK(contains(wrong("[{name: a, spec: a, before: b}]"), "pipeline[0].before: unknown key"));
    CHECK(contains(wrong("{a: b}"), "expected a list of 1 to 200 stages"));
    CHECK(contains(wrong("[]"), "expected a list of 1 to 200 stages"));
    CHECK(contains(wrong("[a]"), "expected a mapping with name, spec and after"));
}

}  // namespace submission_test
