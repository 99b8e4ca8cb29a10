// `autolaunch lint`: every rule finds its sample at its line and nothing else there, good files
// give nothing, and no bytes at all make it fail or wait.

#include "lint/lint.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "lint/arithmetic.hpp"
#include "lint/metrics_file.hpp"
#include "sanitized.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <random>
#include <set>

namespace lint_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
namespace fs = std::filesystem;

namespace {

const fs::path kSamples = fs::path(AUTOLAUNCH_SOURCE_DIR) / "tests/data/lint";

LintRequest request_for(const fs::path& file, std::string text) {
    LintRequest request;
    request.file = file;
    request.text = std::move(text);
    // The samples named gres-* and slurm-* say nothing of it in their content.
    const std::string name = file.filename();
    if (file.extension() == ".conf")
        request.kind = name.starts_with("gres") ? FileKind::gres_conf : FileKind::slurm_conf;
    request.cluster_text = read_file(kSamples / "slurm.conf");
    request.folder_exists = [](const std::string& folder) { return folder != "missing"; };
    if (name.starts_with("spec-save-time"))
        request.save_times = [](const std::string&) {
            return SaveTimes::parse(R"({"format":1,"save_seconds":[2,41]})");
        };
    return request;
}

std::vector<fs::path> files_in(const char* folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(kSamples / folder))
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

std::vector<LintFinding> lint_text(const std::string& text, FileKind kind = FileKind::script) {
    LintRequest request;
    request.file = "job.sh";
    request.text = text;
    request.kind = kind;
    return lint(request);
}

// Rules whose fix is not a change of this text that follows from it, and why.
const std::map<std::string, std::string> kOnlyInWords = {
    {"per-task-variable", "how the command is quoted for the tasks' shell is the author's"},
    {"torch-distributed-launch", "the trainer may read --local-rank, which nobody else gives it"},
    {"launcher-in-launcher", "which of the two is meant"},
    {"disguised-directive", "whether the line is meant to be off"},
    {"spank-option", "nothing is wrong where the plugin is"},
    {"output-folder", "the folder is made outside of the file"},
    {"checkpoint-in-job-folder", "the experiment's name"},
    {"checkpoint-on-node", "where the shared file system is"},
    {"memory-twice", "which of the two is meant"},
    {"beyond-node", "what the job can do with less"},
    {"trap-blocked", "what the script does after the trap, and with which code it ends"},
    {"array-variable", "which numbers are meant"},
    {"spec-error", "the spec's own words say it"},
    {"spec-restart-no-checkpoint", "where checkpoints go"},
    {"spec-checkpoint-no-folder", "where checkpoints go"},
    {"spec-nested-launcher", "which of the launcher's options the trainer needs"},
    {"gres-file-twice", "which line has the device"},
    {"gres-cores-overlap", "the machine's own numbers"},
    {"gres-file-missing", "the machine's devices"},
    {"gres-both-files", "whether it is a MIG device"},
    {"gres-links", "the machine's links"},
    {"gres-cores-beyond", "the machine's own numbers"},
    {"slurm-node-twice", "which line is right for the node"},
    {"slurm-cpu-count", "the machine's own numbers"},
    {"slurm-partition-node", "what the node is made of"},
    {"unknown-file", "what the file was meant to be"},
};

bool finds(const std::string& text, const std::string& rule, FileKind kind = FileKind::script) {
    const auto found = lint_text(text, kind);
    return std::any_of(found.begin(), found.end(),
                       [&](const LintFinding& finding) { return finding.rule == rule; });
}

/// The lines after "lint-expect: ", in a comment.
std::set<int> expected_lines(const std::string& text) {
    const std::string mark = "lint-expect: ";
    const std::size_t at = text.find(mark);
    REQUIRE(at != std::string::npos);
    const std::string list =
        text.substr(at + mark.size(), text.find_first_of("\r\n\"", at) - at - mark.size());
    std::set<int> lines;
    for (const auto& number : split(list, ','))
        lines.insert(std::stoi(number));
    return lines;
}

}  // namespace

TEST_CASE("a subcommand of autolaunch's that starts no ranks is no launcher") {
    const auto nests = [](const std::string& command) {
        return finds("trainer: {command: " + command + "}\n", "spec-nested-launcher",
                     FileKind::spec);
    };
    CHECK(!nests("[autolaunch, ckpt, verify, runs/a]"));
    CHECK(!nests("\"set -e; exec autolaunch ckpt verify runs/a\""));
    CHECK(nests("[autolaunch, train.py]"));
    CHECK(nests("[/opt/bin/autolaunch, run, train.py]"));
    CHECK(nests("\"set -e; exec srun ./train\""));
    const std::string script =
        "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --time=1:00:00\n"
        "srun autolaunch -c train.yaml\nautolaunch ckpt verify runs/a\n";
    const auto found = lint_text(script);
    CHECK(std::none_of(found.begin(), found.end(),
                       [](const LintFinding& finding) { return finding.line == 5; }));
}

TEST_CASE("what autolaunch gives out as examples has no mistakes") {
    std::vector<fs::path> files;
    for (const char* folder : {"configs", "examples"})
        for (const auto& entry :
             fs::recursive_directory_iterator(fs::path(AUTOLAUNCH_SOURCE_DIR) / folder)) {
            const fs::path& file = entry.path();
            const fs::path kind = file.parent_path().filename();
            const bool is_profile = kind == "profiles" || kind == "site";  // no spec
            for (const char* extension : {".yaml", ".yml", ".sh", ".sbatch", ".slurm", ".conf"})
                if (file.extension() == extension && !is_profile)
                    files.push_back(file);
        }
    CHECK(files.size() >= 5);
    for (const auto& file : files) {
        LintRequest request;
        request.file = file;
        request.text = read_file(file);
        request.environment = {
            {"HOME", "/home/user"}, {"USER", "user"}, {"SLURM_NNODES", "2"}, {"SLURM_JOB_ID", "7"}};
        const auto found = lint(request);
        CHECK_MESSAGE(!has_mistakes(found), findings_text(found));
    }
}

TEST_CASE("a bad sample gives its rule, at its lines, and nothing else") {
    for (const auto& file : files_in("bad")) {
        CAPTURE(file.filename().string());
        const std::string text = read_file(file);
        const std::string rule = file.stem();
        std::set<int> lines;
        for (const auto& finding : lint(request_for(file, text))) {
            CHECK_MESSAGE(finding.rule == rule, findings_text({finding}));
            lines.insert(finding.line);
            CHECK(!finding.message.empty());
            CHECK(!finding.fix.empty());
        }
        CHECK(lines == expected_lines(text));
    }
}

TEST_CASE("every fix, applied to its sample, silences its finding and brings no new one") {
    const auto by_rule = [](const std::vector<LintFinding>& findings) {
        std::map<std::string, int> counts;
        for (const auto& finding : findings)
            ++counts[finding.rule];
        return counts;
    };
    std::set<std::string> with_edits, rules;
    for (const auto& file : files_in("bad")) {
        const std::string text = read_file(file);
        const auto found = lint(request_for(file, text));
        for (const auto& finding : found) {
            rules.insert(finding.rule);
            if (finding.edits.empty())
                continue;
            with_edits.insert(finding.rule);
            CAPTURE(findings_json({finding}));
            const auto mended = apply_edits(text, finding.edits);
            REQUIRE(mended.has_value());
            CAPTURE(*mended);
            auto before = by_rule(found);
            --before[finding.rule];
            for (const auto& [rule, count] : by_rule(lint(request_for(file, *mended)))) {
                CAPTURE(rule);
                CHECK(count <= before[rule]);
            }
        }
    }
    for (const auto& rule : rules) {
        CAPTURE(rule);
        CHECK(with_edits.contains(rule) != kOnlyInWords.contains(rule));
    }
    for (const auto& [rule, reason] : kOnlyInWords)
        CHECK_MESSAGE(rules.contains(rule), rule, " is no rule");
}

TEST_CASE("a fix in words, applied by hand, silences its finding and brings no new one") {
    // Nothing is to be changed there: the cluster has the plugin, and the file is another.
    const std::set<std::string> none = {"spank-option", "unknown-file"};
    std::set<std::string> mended;
    for (const auto& file : files_in("mended")) {
        mended.insert(file.stem());
        const auto found = lint(request_for(file, read_file(file)));
        CHECK_MESSAGE(found.empty(), findings_text(found));
        CHECK(fs::exists(kSamples / "bad" / file.filename()));
    }
    for (const auto& [rule, reason] : kOnlyInWords) {
        CAPTURE(rule);
        CHECK(mended.contains(rule) != none.contains(rule));
    }
}

TEST_CASE("edits are applied where their old text is, together or not at all") {
    CHECK(apply_edits("ab\ncd\n", {{2, 1, "c", "x"}, {1, 2, "b", ""}}) == "a\nxd\n");
    CHECK(apply_edits("ab\ncd", {{1, 1, "ab\n", ""}}) == "cd");
    CHECK(apply_edits("ab", {{1, 3, "", "\nc"}}) == "ab\nc");
    CHECK(apply_edits("ab\n", {{2, 1, "", "c\n"}}) == "ab\nc\n");
    CHECK_FALSE(apply_edits("ab", {{1, 1, "b", ""}}).has_value());
    CHECK_FALSE(apply_edits("abc", {{1, 1, "ab", ""}, {1, 2, "bc", ""}}).has_value());
    CHECK_FALSE(apply_edits("ab", {{2, 1, "", "c"}}).has_value());
    CHECK_FALSE(apply_edits("ab", {{1, 9, "", "c"}}).has_value());
}

TEST_CASE("good files give nothing, not even info") {
    for (const auto& file : files_in("good")) {
        const auto found = lint(request_for(file, read_file(file)));
        CHECK_MESSAGE(found.empty(), findings_text(found));
    }
}

TEST_CASE("the batch scripts of the guides give nothing") {
    const std::string guide = read_file(fs::path(AUTOLAUNCH_SOURCE_DIR) / "docs/guides/slurm.md");
    std::string script;
    for (const auto& line : split(guide.substr(guide.find("    #!/bin/bash")), '\n')) {
        if (!line.starts_with("    "))
            break;
        script += line.substr(4) + '\n';
    }
    REQUIRE(script.find("#SBATCH") != std::string::npos);
    const auto found = lint_text(script);
    CHECK_MESSAGE(found.empty(), findings_text(found));
}

TEST_CASE("the repository's own specs are read outside of a job, without errors") {
    for (const auto& entry : fs::directory_iterator(fs::path(AUTOLAUNCH_SOURCE_DIR) / "configs")) {
        if (!entry.is_regular_file())
            continue;  // profiles
        for (const auto& finding : lint(request_for(entry.path(), read_file(entry.path()))))
            CHECK_MESSAGE(finding.severity != LintSeverity::error, findings_text({finding}));
    }
}

TEST_CASE("each rule has a name of its own, words, and a sample") {
    std::set<std::string> samples, names;
    for (const auto& file : files_in("bad"))
        samples.insert(file.stem());
    const auto rules = all_rules();
    CHECK(rules.size() >= 30);
    for (const auto& rule : rules) {
        const std::string name(rule.name);
        CAPTURE(name);
        CHECK(names.insert(name).second);
        CHECK(samples.contains(name));
        CHECK(!rule.summary.empty());
        CHECK(rule.why.ends_with('.'));
        CHECK(!rule.fix.empty());
        CHECK((rule.check != nullptr));
    }
    CHECK(samples == names);
}

TEST_CASE("docs/lint.md ends with the table of rules") {
    const std::string page = read_file(fs::path(AUTOLAUNCH_SOURCE_DIR) / "docs/lint.md");
    CHECK_MESSAGE(page.ends_with(rules_markdown()), "write: autolaunch lint --rules --markdown");
}

TEST_CASE("a comment silences a rule on its line and the next, and no other") {
    const std::string head = "#!/bin/bash\n#SBATCH --nodes=1\n";
    const std::string setting = "export NCCL_IB_DISABLE=1";
    CHECK(finds(head + setting + '\n', "nccl-ib-disable"));
    CHECK_FALSE(
        finds(head + setting + " # autolaunch-lint: ignore=nccl-ib-disable\n", "nccl-ib-disable"));
    CHECK_FALSE(finds(head + "# autolaunch-lint: ignore=x,nccl-ib-disable why\n" + setting + '\n',
                      "nccl-ib-disable"));
    CHECK(finds(head + "# autolaunch-lint: ignore=nccl-ib-disable\n\n" + setting + '\n',
                "nccl-ib-disable"));
    CHECK(
        finds(head + "# autolaunch-lint: ignore=nccl-debug\n" + setting + '\n', "nccl-ib-disable"));
    CHECK(finds(head + setting + "; echo autolaunch-lint: ignore=nccl-ib-disable\n",
                "nccl-ib-disable"));
}

TEST_CASE("a first line with a DOS line end is one in any script") {
    CHECK(finds("#!/bin/bash -e\r\necho hi\r\n", "dos-line-ends"));
    CHECK_FALSE(finds("#!/bin/bash -e\ncat <<END\na\r\nEND\n", "dos-line-ends"));
}

TEST_CASE("the kind of a file follows from its content, and then from its name") {
    CHECK(guess_kind("x.yaml", "#!/bin/sh\n") == FileKind::script);
    CHECK(guess_kind("x", "\n#SBATCH -N1\n") == FileKind::script);
    CHECK(guess_kind("x", "trainer:\n  command: [a]\n") == FileKind::spec);
    CHECK(guess_kind("x.yml", "Name=a\n") == FileKind::spec);
    CHECK(guess_kind("x.sh", "echo\n") == FileKind::script);
    CHECK(guess_kind("x", "NodeName=n1 Name=gpu File=/dev/nvidia0\n") == FileKind::gres_conf);
    CHECK(guess_kind("x", "# a\nClusterName=a\nNodeName=n1 CPUs=8\n") == FileKind::slurm_conf);
    CHECK(guess_kind("/etc/slurm/gres.conf", "") == FileKind::gres_conf);
    CHECK(kind_from_name("slurm.conf") == FileKind::slurm_conf);
    CHECK(!kind_from_name("conf"));
}

TEST_CASE("a file is a spec, metrics or a document only where something says so") {
    CHECK(guess_kind("a.yaml", "slurm_config: {nodes: 2}\nfoo: 1\n") == FileKind::spec);
    CHECK(guess_kind("a.yaml", "security:\n  a: b\naudit: {}\n") == FileKind::spec);
    CHECK(guess_kind("a.yaml", "# nothing yet\n") == FileKind::spec);
    for (const char* other :
         {"services:\n  grafana: {}\n", "apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {}\n",
          "- hosts: all\n  tasks: []\n", "name: ci\non: push\njobs: {}\n",
          "slurm_config_dir: /etc\nslurm_user: a\n"})
        CHECK(guess_kind("a.yaml", other) == FileKind::other);
    CHECK(guess_kind("site.yaml", "contact: a@b\nresource_management: {}\n") == FileKind::other);
    CHECK(guess_kind("train.py", "#!/usr/bin/env python3\nprint(1)\n") == FileKind::other);
    CHECK(guess_kind("write_job.py", "job = '''\n#SBATCH -N1\n'''\n") == FileKind::other);
    CHECK(guess_kind("write_job", "#!/usr/bin/python3\nj = '''\n#SBATCH -N1\n'''\n") ==
          FileKind::other);
    CHECK(guess_kind("job.py", "#!/usr/bin/env python3\n#SBATCH -N1\n") == FileKind::script);
    CHECK(guess_kind("run", "#!/usr/bin/env -S bash -e\necho\n") == FileKind::script);
    CHECK(guess_kind("picture", std::string("\x89PNG\0\1", 6)) == FileKind::other);
    CHECK(guess_kind("slurmdbd.conf", "DbdHost=a\n") == FileKind::other);
    CHECK(guess_kind("x.repo", "[base]\nname=Base\nenabled=1\n") == FileKind::other);
    CHECK(guess_kind("README.md", "#SBATCH --nodes=1\n") == FileKind::document);
    CHECK(guess_kind("a.yml", "groups:\n- rules:\n  - expr: up\n") == FileKind::metrics);
    CHECK(guess_kind("a.yml",
                     "kind: VMRule\nspec:\n  groups:\n  - rules:\n    - alert: A\n"
                     "      expr: up == 0\n") == FileKind::metrics);
    CHECK(guess_kind("a.sh", "cat >p.yml <<E\nscrape_configs: []\nE\n") == FileKind::script);
    CHECK(guess_kind("a.json", R"({"panels": [], "schemaVersion": 39})") == FileKind::metrics);
    CHECK(guess_kind("a.json", R"({"panels": 3})") == FileKind::other);
    CHECK(guess_kind("a.csv", "DCGM_FI_DEV_GPU_UTIL, gauge, x\n") == FileKind::metrics);
    CHECK(guess_kind("a.csv", "name,size\na,1\n") == FileKind::other);
    CHECK(kind_from_name("metrics") == FileKind::metrics);
    CHECK(kind_names() == "script, spec, gres.conf, slurm.conf, document or metrics");
}

TEST_CASE("of a script for another interpreter the directives are read, and no commands") {
    const std::string python =
        "#!/usr/bin/env python3\n#SBATCH --nods=2\nexport(NCCL_IB_DISABLE=1)\n"
        "srun = 'torchrun'\n";
    CHECK(finds(python, "unknown-option"));
    CHECK(lint_text(python).size() == 1);
}

TEST_CASE("names of metrics are found in expressions, and labels are none") {
    const auto names = [](const std::string& text) {
        std::string all;
        for (const auto& use : metric_uses(text))
            all += std::to_string(use.line) + use.name + ' ';
        return all;
    };
    CHECK(names("- expr: a{b=\"c\"} / on (d) group_left(e) f  # g\n  for: 5m\n") == "1a 1f ");
    CHECK(names("expr: |\n  a\n   # b\n  + c\nlabels: {d: e}\n") == "2a 4c ");
    CHECK(names("  expr: sum by (x) (a)\n    > b\n  annotations: {c: d}\n") == "1sum 1a 2b ");
    CHECK(names(R"({"query": {"expr": "a{b=~\"c\"}", "query": "f"}, "x": "y"})") == "1a 1f ");
    CHECK(names("DCGM_FI_A, gauge, b\n") == "1DCGM_FI_A ");
    CHECK(names("series: 'a{b=\"c\"}'\nvalues: '1 2'\n") == "1a ");
}

TEST_CASE("numbers for an array are counted from where the script counts") {
    const auto fix = [](const std::string& index, const std::string& array) {
        const auto found = lint_text("#!/bin/bash\n#SBATCH --nodes=1 -a " + array +
                                     "\nL=(a b c d)\nM=(x y)\ni=$SLURM_ARRAY_TASK_ID\n" + index +
                                     "\nexec srun autolaunch t.py\n");
        return found.empty() ? std::string("nothing") : found[0].fix;
    };
    const std::string both = "A=${L[k / 2]} B=${M[k % 2]}";
    CHECK(fix("k=$i; " + both, "0-6") == "--array=0-7, when all are meant");
    CHECK(fix("k=$i; " + both, "0-7") == "nothing");
    CHECK(fix("k=$((i - 1)); " + both, "0-7") == "--array=1-8, when all are meant");
    CHECK(fix("k=$((i - 1)); " + both, "1-8") == "nothing");
    CHECK(fix("k=$((i - 1)); " + both, "1-9%4") == "--array=1-8%4, when all are meant");
    CHECK(fix("k=$((i - 10)); " + both, "10-15") == "--array=10-17, when all are meant");
    CHECK(fix("A=${L[$i]}", "1-4") == "--array=0-3, when all are meant");
}

TEST_CASE("options of plugins are read with their values, and are no mistakes") {
    const auto parse = [](const std::string& line) {
        return parse_slurm_options(parse_shell(line).commands.at(0).words, SlurmProgram::srun);
    };
    const auto pyxis =
        parse("-N2 --container-image a#b --container-writable --image=c python t.py");
    CHECK(pyxis.unknown.empty());
    CHECK(pyxis.rest == 5);
    REQUIRE(pyxis.of_plugins.size() == 3);
    CHECK(pyxis.of_plugins[0].plugin == "pyxis");
    CHECK(pyxis.of_plugins[2].plugin == "shifter");
    const auto own = parse("--of-this-site=1 --container-new=2 --noddes=3 ./a");
    CHECK(own.of_plugins.size() == 2);
    CHECK(own.of_plugins[0].plugin.empty());
    REQUIRE(own.unknown.size() == 1);
    CHECK(own.unknown[0].nearest == "--nodes");
}

TEST_CASE(
    "options in a list are the command's, and those that are not known are not concluded from") {
    const std::string two =
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8\n";
    CHECK(finds(two + "A=(--nproc-per-node 4)\nsrun -K torchrun \"${A[@]}\" t.py\n",
                "too-many-processes"));
    CHECK(finds(two + "srun -K torchrun --nnodes=2 t.py\n", "launcher-per-rank"));
    CHECK_FALSE(finds(two + "srun -K torchrun --nnodes=2 $MORE t.py\n", "launcher-per-rank"));
    CHECK_FALSE(
        finds(two + "A=(a)\nA+=(b)\nsrun -K torchrun \"${A[@]}\" t.py\n", "launcher-per-rank"));
    CHECK_FALSE(finds(two + "srun -K torchrun --nnodes=$SLURM_NTASKS t.py\n", "launcher-per-rank"));
    CHECK_FALSE(
        finds(two + "srun -K --gpus-per-task=1 torchrun --nnodes=2 t.py\n", "launcher-per-rank"));
    CHECK_FALSE(finds("srun -N1 -n1 torchrun t.py\n", "launcher-per-rank"));
    CHECK_FALSE(finds("torchrun --no-python ./numa.sh train.py\n", "no-python-script"));
    CHECK_FALSE(finds("torchrun --no-python --role a ./train.py\n", "no-python-script"));
    CHECK(finds("python3 -m torch.distributed.run --no_python --role a train.py\n",
                "no-python-script"));
    CHECK_FALSE(finds("srun -N1 -n 32 --gpus=4 ./solver\n", "tasks-and-gpus"));
    CHECK_FALSE(finds("salloc -n 32 --gres=gpu:4\n", "tasks-and-gpus"));  // of how many nodes
    CHECK(finds("salloc -N1 -n 32 --gres=gpu:4\n", "tasks-and-gpus"));
    CHECK_FALSE(finds("salloc -N1-4 --gpus=8 --gpus-per-node=4\n", "gpu-counts-differ"));
    CHECK(finds("salloc -N4 --gpus=8 --gpus-per-node=4\n", "gpu-counts-differ"));
}

TEST_CASE("the shell is taken apart as a shell would") {
    const ShellScript script = parse_shell(
        "a=1 b='x y' cmd \"one $two\" \\\n  'no $three' \\$four ${five:-$six} # seven\n"
        "LIST=(a \"b c\"\n  d) # comment\n"
        "x=$(inner $arg | other) && run &\n"
        "cat <<E1 - <<-'E2'\n$body\nE1\n\tE3\n\tE2\n"
        "if test -f a; then in_if; fi >log 2>&1\n"
        "f() { in_f; }\n"
        "case $v in p|q) in_case;; esac\n");
    std::vector<std::string> commands;
    for (const auto& command : script.commands)
        commands.push_back(command.words[0].value);
    CHECK(commands == std::vector<std::string>{"cmd", "inner", "other", "run", "cat", "test",
                                               "in_if", "in_f", "in_case"});
    const ShellCommand& first = script.commands[0];
    CHECK(first.prefix.size() == 2);
    CHECK(first.prefix[1].value.value == "x y");
    REQUIRE(first.words.size() == 5);
    CHECK(first.words[1].expansions == std::vector<std::string>{"two"});
    CHECK(first.words[2].value == "no $three");
    CHECK(first.words[2].expansions.empty());
    CHECK(first.words[2].line == 2);
    CHECK(first.words[3].value == "$four");
    CHECK(first.words[3].expansions.empty());
    CHECK(first.words[4].expansions == std::vector<std::string>{"five", "six"});
    CHECK(script.commands[1].in_substitution);
    CHECK(script.commands[3].background);
    CHECK(script.commands[4].words.size() == 2);  // cat -
    CHECK(script.in_here_document(7));
    CHECK(script.in_here_document(10));
    CHECK_FALSE(script.in_here_document(11));
    CHECK(script.commands[5].guarded);
    CHECK(script.commands[6].depth == 1);
    CHECK(script.commands[7].in_function);
    REQUIRE(script.assignments.size() >= 3);
    const auto list =
        std::find_if(script.assignments.begin(), script.assignments.end(),
                     [](const auto& assignment) { return assignment.name == "LIST"; });
    REQUIRE(list != script.assignments.end());
    REQUIRE(list->value.elements.size() == 3);
    CHECK(list->value.elements[1].value == "b c");
}

TEST_CASE("options are read as getopt_long reads them") {
    const auto parse = [](const std::string& line, SlurmProgram program) {
        return parse_slurm_options(parse_shell(line).commands.at(0).words, program);
    };
    const auto srun =
        parse("-N4 -n 8 --mpi pmix -lu -K --gres=gpu:2 --cpus-per-t 3 --exclusive ./program -N9",
              SlurmProgram::srun);
    CHECK(srun.unknown.empty());
    CHECK(srun.rest == 11);
    REQUIRE(srun.options.size() == 9);
    CHECK(srun.options[0].value.value == "4");
    CHECK(srun.options[1].value.value == "8");
    CHECK(srun.options[2].name == "mpi");
    CHECK(srun.options[4].name == "unbuffered");
    CHECK(srun.options[5].name == "kill-on-bad-exit");
    CHECK_FALSE(srun.options[5].has_value);
    CHECK(srun.options[7].name == "cpus-per-task");
    const auto sbatch = parse("--ntasks-per-nod=1 --nods 3", SlurmProgram::sbatch);
    CHECK(sbatch.options.at(0).name == "ntasks-per-node");
    REQUIRE(sbatch.unknown.size() == 1);
    CHECK(sbatch.unknown[0].nearest == "--nodes");
}

TEST_CASE("every option of this machine's sbatch and srun is known") {
    // In srun's text of 22.05, and refused by it.
    const std::set<std::string> kStale = {"--slurmd_debug", "--ctrl-comm-ifhn", "--mpi-combine"};
    for (const char* name : {"sbatch", "srun"}) {
        // `--usage` wants a slurm.conf, and no cluster that answers.
        FILE* pipe = ::popen(("SLURM_CONF='" + (kSamples / "slurm.conf").string() + "' " + name +
                              " --usage 2>/dev/null")
                                 .c_str(),
                             "re");
        REQUIRE(pipe != nullptr);
        std::string usage;
        for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe))
            usage += static_cast<char>(c);
        ::pclose(pipe);
        if (usage.empty()) {
            MESSAGE("skipped: ", name, " is not installed");
            continue;
        }
        for (std::size_t at = usage.find("--"); at != std::string::npos;
             at = usage.find("--", at + 2)) {
            const std::size_t end =
                usage.find_first_not_of("abcdefghijklmnopqrstuvwxyz-_0123456789", at);
            Word word;
            word.raw = word.value = usage.substr(at, end - at);
            if (word.value.size() < 4 || kStale.contains(word.value))
                continue;
            const std::vector<Word> words = {word};
            const auto parsed = parse_slurm_options(
                words, std::string(name) == "srun" ? SlurmProgram::srun : SlurmProgram::sbatch);
            CHECK_MESSAGE(parsed.unknown.empty(), name, " ", word.value);
        }
    }
}

TEST_CASE("arithmetic is the shell's") {
    const VariableLookup lookup = [](const std::string& name) -> std::optional<long long> {
        if (name == "i")
            return 7;
        if (name == "#L")
            return 3;
        return std::nullopt;
    };
    CHECK(evaluate_arithmetic("i % 3 + 2 * (i - 1)", lookup) == 13);
    CHECK(evaluate_arithmetic("$((${i} / ${#L[@]}))", lookup) == 2);
    CHECK(evaluate_arithmetic("-i + 10", lookup) == 3);
    for (const char* bad :
         {"", "i /0", "j", "i +", "(i", "i ? 1 : 2", "010", "9223372036854775807 + 1", "i i"})
        CHECK_FALSE(evaluate_arithmetic(bad, lookup));
    CHECK_FALSE(evaluate_arithmetic(std::string(100'000, '('), lookup));
}

TEST_CASE("what is near a mistake and is none") {
    const std::string two =
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8\n";
    // autolaunch takes each task for a rank, so the same number is right.
    CHECK_FALSE(finds(two + "srun autolaunch --nproc-per-node 8 train.py\n", "too-many-processes"));
    CHECK(finds(two + "srun torchrun --nproc-per-node gpu train.py\n", "too-many-processes"));
    CHECK(finds(two + "srun bash -c \"torchrun --nproc-per-node 4 train.py\"\n",
                "too-many-processes"));
    CHECK_FALSE(finds(two + "srun --ntasks-per-node=1 torchrun --nproc-per-node 8 train.py\n",
                      "too-many-processes"));
    CHECK(finds(two + "srun bash -c \"python train.py --rank $SLURM_PROCID\"\n",
                "per-task-variable"));
    CHECK_FALSE(finds(two + "srun bash -c \"python train.py --rank \\$SLURM_PROCID\"\n",
                      "per-task-variable"));
    CHECK_FALSE(
        finds(two + "export SLURM_KILL_BAD_EXIT=1\nsrun python train.py\n", "kill-on-bad-exit"));
    CHECK_FALSE(finds(two + "srun autolaunch train.py\n", "kill-on-bad-exit"));
    CHECK_FALSE(finds(two + "set -e\nsrun python train.py\necho done\n", "status-lost"));
    CHECK_FALSE(finds(two + "srun python train.py || exit 1\necho done\n", "status-lost"));
    CHECK(finds(two + "srun python train.py\nexit 0\n", "status-lost"));
    CHECK_FALSE(finds("#!/bin/bash\n#SBATCH -N2 --exclusive\nexport MASTER_PORT=29500\nsrun a\n",
                      "fixed-port"));
    CHECK(finds("#!/bin/bash\n#SBATCH -N2 --exclusive=user\nexport MASTER_PORT=29500\nsrun a\n",
                "fixed-port"));
    CHECK_FALSE(
        finds("#!/bin/bash\n#SBATCH --array=0-2\nL=($(ls))\necho ${L[$SLURM_ARRAY_TASK_ID]}\n",
              "array-misses-cases"));
    CHECK_FALSE(
        finds("#!/bin/bash\n#SBATCH --array=0-1\nL=({1..9})\necho ${L[$SLURM_ARRAY_TASK_ID]}\n",
              "array-misses-cases"));
}

TEST_CASE("JSON holds what the text says, also of bytes that are no text") {
    const std::string script = "#!/bin/bash\n#SBATCH --job-name=$\xff\xfe\nsrun a\n";
    const auto found = lint_text(script);
    REQUIRE(found.size() == 1);
    const std::string json = findings_json(found);
    CHECK(json.find("\"rule\": \"directive-variable\"") != std::string::npos);
    CHECK(json.find("\"line\": 2") != std::string::npos);
    CHECK(findings_text(found).starts_with("job.sh:2: error: "));
}

TEST_CASE("any bytes at all end quickly, and edits are of the bytes that are there") {
    std::mt19937 random(4711);
    std::vector<std::pair<fs::path, std::string>> samples;
    for (const char* folder : {"bad", "good"})
        for (const auto& file : files_in(folder))
            samples.emplace_back(file, read_file(file));
    const std::string marks =
        "\"'`$(){}[]<>|&;#\\\n \t=,-*/%\0\xff"
        "09";
    const auto begin = std::chrono::steady_clock::now();
    std::size_t findings = 0;
    for (int round = 0; round < trials(3000); ++round) {
        auto [file, text] = samples[random() % samples.size()];
        for (unsigned change = random() % 8 + 1; change > 0 && !text.empty(); --change) {
            const std::size_t at = random() % text.size();
            const auto& other = samples[random() % samples.size()].second;
            switch (random() % 4) {
                case 0:
                    text[at] = marks[random() % marks.size()];
                    break;
                case 1:
                    text.insert(at, 1, marks[random() % marks.size()]);
                    break;
                case 2:
                    text.erase(at, random() % 20);
                    break;
                default:
                    text.insert(at, other.substr(random() % other.size(), random() % 60));
                    break;
            }
        }
        const auto found = lint(request_for(file, text));
        findings += found.size();
        for (const auto& finding : found)
            if (!apply_edits(text, finding.edits))
                FAIL_CHECK(text, findings_json({finding}));
    }
    CHECK(findings > static_cast<std::size_t>(trials(1000)));
    for (const std::string piece :
         {"$(", "${", "(", "`", "\"$(", "$((", "{ ", "if ", "case a in ", "a=(", "<<E\n", "${a[",
          "bash -c \"", "L=$L$L;", "$\"", "<(", "srun $L ", "x=$y;"}) {
        std::string text = "#!/bin/bash\n#SBATCH --array=0-9999\n";
        while (text.size() < 200'000)
            text += piece;
        const auto before = std::chrono::steady_clock::now();
        lint_text(text);
        lint_text(text, FileKind::gres_conf);
        INFO("200 kB of ", piece);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
        CHECK(took.count() < 10);
    }
    const auto seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    MESSAGE("mutations and deep nesting took ", seconds, " s");
    CHECK(seconds < 60);
}

}  // namespace lint_test
