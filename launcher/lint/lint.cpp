#include "lint/lint.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cctype>
#include <set>
#include <tuple>
#include <utility>

namespace autolaunch::launcher {

namespace {

void add_setting(Subject& subject, std::string name, std::string value, int line, bool exported) {
    const bool literal = value.find_first_of("$`") == std::string::npos;
    subject.environment.push_back({std::move(name), std::move(value), line, literal, exported});
}

/// --export=ALL,NAME=VALUE of sbatch and srun.
void add_export_option(Subject& subject, const SlurmOption* option) {
    if (option == nullptr)
        return;
    for (const auto& part : split(subject.script.resolved(option->value), ','))
        if (const std::string name(assigned_name(part)); !name.empty())
            add_setting(subject, name, part.substr(name.size() + 1), option->line, true);
}

void fill_script(Subject& subject, const std::string& text) {
    subject.script = parse_sbatch_script(text);
    subject.launches = find_launches(subject.script);
    const SbatchScript& script = subject.script;
    for (const auto& assignment : script.shell.assignments)
        if (!assignment.value.array && !assignment.append)
            add_setting(subject, assignment.name, script.resolved(assignment.value),
                        assignment.value.line, assignment.exported);
    for (const auto& command : script.shell.commands) {  // env NAME=VALUE program
        const bool by_env = std::any_of(command.words.begin(), command.words.end(),
                                        [](const Word& word) { return word.value == "env"; });
        for (const auto& word : command.words)
            if (by_env && !assigned_name(word.raw).empty()) {
                const std::string name(assigned_name(word.raw));
                add_setting(subject, name, script.resolved(word).substr(name.size() + 1), word.line,
                            true);
            }
    }
    add_export_option(subject, script.option("export"));
    for (const auto& launch : subject.launches)
        add_export_option(subject, launch.srun_option("export"));
}

void fill_spec(Subject& subject, const LintRequest& request) {
    subject.spec = read_spec_file(request.file, request.text, request.environment);
    if (!subject.spec.readable())
        return;
    const JobSpec& spec = subject.spec.result.spec;
    for (const auto& [name, value] : spec.nccl.env)
        add_setting(subject, name, value, subject.spec.line_of("nccl.env." + name), true);
    for (const auto& [name, value] : spec.trainer.env)
        add_setting(subject, name, value, subject.spec.line_of("trainer.env." + name), true);
}

/// The rules that a line silences for itself and for the next one.
std::set<std::string> silenced_by(std::string_view line) {
    constexpr std::string_view kMark = "autolaunch-lint:";
    std::set<std::string> rules;
    const std::size_t at = line.find(kMark);
    if (at == std::string_view::npos || line.substr(0, at).find('#') == std::string_view::npos)
        return rules;
    line = trim(line.substr(at + kMark.size()));
    if (!line.starts_with("ignore="))
        return rules;
    line.remove_prefix(7);
    for (const auto& name : split(line.substr(0, line.find_first_of(" \t\r")), ','))
        rules.insert(name);
    return rules;
}

class Silencer {
public:
    explicit Silencer(const std::string& text) {
        for (const auto& line : split(text, '\n'))
            by_line_.push_back(silenced_by(line));
    }
    bool silences(const LintFinding& finding) const {
        return names(finding.line, finding.rule) || names(finding.line - 1, finding.rule);
    }

private:
    bool names(int line, const std::string& rule) const {
        return line >= 1 && static_cast<std::size_t>(line) <= by_line_.size() &&
               by_line_[static_cast<std::size_t>(line) - 1].contains(rule);
    }
    std::vector<std::set<std::string>> by_line_;
};

bool begins_with_key(std::string_view line, std::initializer_list<std::string_view> keys) {
    return std::any_of(keys.begin(), keys.end(), [line](std::string_view key) {
        return line.size() > key.size() && line[key.size()] == '=' &&
               equals_ignoring_case(line.substr(0, key.size()), key);
    });
}

bool ends_in(const std::string& file, std::initializer_list<std::string_view> ends) {
    return std::any_of(ends.begin(), ends.end(), [&](auto end) { return file.ends_with(end); });
}

}  // namespace

FileKind guess_kind(const std::string& file, std::string_view text) {
    if (text.starts_with("#!"))
        return FileKind::script;
    if (ends_in(file, {"gres.conf"}))
        return FileKind::gres_conf;
    if (ends_in(file, {"slurm.conf"}))
        return FileKind::slurm_conf;
    bool key_value = false, gres = false;
    for (const auto& raw : split(text, '\n')) {
        if (raw.starts_with("#SBATCH"))
            return FileKind::script;
        const std::string_view line = trim(raw);
        key_value = key_value || begins_with_key(line, {"NodeName", "PartitionName", "ClusterName",
                                                        "SlurmctldHost", "GresTypes"});
        const bool of_gres = begins_with_key(line, {"Name", "AutoDetect"}) ||
                             (begins_with_key(line, {"NodeName"}) &&
                              (line.find(" Name=") != std::string_view::npos ||
                               line.find(" AutoDetect=") != std::string_view::npos));
        gres = gres || of_gres;
    }
    if (ends_in(file, {".yaml", ".yml"}))
        return FileKind::spec;
    if (ends_in(file, {".sh", ".sbatch", ".slurm", ".bash", ".job"}))
        return FileKind::script;
    if (gres)
        return FileKind::gres_conf;
    if (key_value)
        return FileKind::slurm_conf;
    return FileKind::spec;
}

std::optional<FileKind> kind_from_name(std::string_view name) {
    if (name == "script")
        return FileKind::script;
    if (name == "spec")
        return FileKind::spec;
    if (name == "gres.conf")
        return FileKind::gres_conf;
    if (name == "slurm.conf")
        return FileKind::slurm_conf;
    return std::nullopt;
}

bool has_mistakes(const std::vector<LintFinding>& findings) {
    return std::any_of(findings.begin(), findings.end(),
                       [](const LintFinding& f) { return f.severity != LintSeverity::info; });
}

std::vector<LintFinding> lint(const LintRequest& request) {
    if (request.text.size() > kMaxLintBytes)
        throw Error(ErrorCode::invalid_argument, request.file + ": larger than 4 MiB",
                    "name a script or a spec");
    if (request.cluster_text.size() > kMaxLintBytes)
        throw Error(ErrorCode::invalid_argument, "--slurm-conf: larger than 4 MiB",
                    "name the cluster's slurm.conf");
    Subject subject;
    subject.kind = request.kind.value_or(guess_kind(request.file, request.text));
    subject.folder_exists = request.folder_exists;
    subject.save_times = request.save_times;
    subject.resources_of = request.resources_of;
    subject.cluster = parse_slurm_conf(request.cluster_text);
    if (subject.kind == FileKind::script) {
        fill_script(subject, request.text);
    } else if (subject.kind == FileKind::spec) {
        fill_spec(subject, request);
    } else {
        subject.conf = parse_slurm_conf(request.text);
    }
    const Silencer silencer(request.text);
    std::vector<LintFinding> findings;
    std::set<std::tuple<int, std::string_view, std::string>> seen;
    for (const auto& rule : all_rules())
        for (auto& hit : rule.check(subject)) {
            if (!seen.emplace(hit.line, rule.name, hit.message).second)
                continue;
            LintFinding finding{request.file,
                                hit.line,
                                rule.severity,
                                std::string(rule.name),
                                std::move(hit.message),
                                std::string(rule.why),
                                hit.fix.empty() ? std::string(rule.fix) : std::move(hit.fix)};
            if (!silencer.silences(finding))
                findings.push_back(std::move(finding));
        }
    std::stable_sort(findings.begin(), findings.end(),
                     [](const auto& a, const auto& b) { return a.line < b.line; });
    return findings;
}

}  // namespace autolaunch::launcher
