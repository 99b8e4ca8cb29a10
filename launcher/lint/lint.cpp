#include "lint/lint.hpp"

#include "base/text.hpp"
#include "lint/document_blocks.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

namespace autolaunch::launcher {

namespace {

void add_setting(Subject& subject, std::string name, std::string value, int line, bool exported,
                 bool everywhere = true) {
    const bool literal = value.find_first_of("$`") == std::string::npos;
    subject.environment.push_back(
        {std::move(name), std::move(value), line, literal, exported, everywhere});
}

/// --export=ALL,NAME=VALUE of sbatch and srun.
void add_export_option(Subject& subject, const SlurmOption* option) {
    if (option == nullptr)
        return;
    for (const auto& part : split(subject.script.resolved(option->value), ','))
        if (const std::string name(assigned_name(part)); !name.empty())
            add_setting(subject, name, part.substr(name.size() + 1), option->line, true, false);
}

void fill_script(Subject& subject, const std::string& text, int first_line) {
    subject.script = parse_sbatch_script(text, first_line);
    subject.launches = find_launches(subject.script);
    const SbatchScript& script = subject.script;
    for (const auto& assignment : script.shell.assignments)
        if (!assignment.value.array && !assignment.append)
            add_setting(subject, assignment.name, script.resolved(assignment.value),
                        assignment.value.line, assignment.exported,
                        !assignment.conditional && !assignment.prefix);
    for (const auto& command : script.shell.commands) {  // env NAME=VALUE program
        const bool by_env = std::any_of(command.words.begin(), command.words.end(),
                                        [](const Word& word) { return word.value == "env"; });
        for (const auto& word : command.words)
            if (by_env && !assigned_name(word.raw).empty()) {
                const std::string name(assigned_name(word.raw));
                add_setting(subject, name, script.resolved(word).substr(name.size() + 1), word.line,
                            true, false);
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

ConfFile conf_at(const std::string& text, int first_line) {
    ConfFile conf = parse_slurm_conf(text);
    std::erase_if(conf.lines, [](const ConfLine& line) {  // a template's own lines
        return std::any_of(line.fields.begin(), line.fields.end(), [](const auto& field) {
            return field.second.find("{{") != std::string::npos ||
                   field.first.find("{{") != std::string::npos;
        });
    });
    for (auto& line : conf.lines)
        line.line += first_line - 1;
    return conf;
}

/// What the text is made of, by its kind.
void fill(Subject& subject, const LintRequest& request) {
    subject.source.lines = split(request.text, '\n');
    if (subject.kind == FileKind::script)
        fill_script(subject, request.text, 1);
    else if (subject.kind == FileKind::spec)
        fill_spec(subject, request);
    else if (subject.kind == FileKind::metrics)
        subject.metrics = metric_uses(request.text);
    else if (subject.kind == FileKind::gres_conf || subject.kind == FileKind::slurm_conf)
        subject.conf = conf_at(request.text, 1);
}

void fill_block(Subject& subject, DocumentBlock block) {
    const int first = block.source.first_line;
    subject.kind = block.kind;
    subject.excerpt = !block.whole;
    subject.script = {};
    subject.launches.clear();
    subject.environment.clear();
    subject.conf = {};
    subject.metrics.clear();
    if (block.kind == FileKind::script)
        fill_script(subject, block.text, first);
    else if (block.kind == FileKind::metrics)
        subject.metrics = block.expression ? metrics_of_expression(block.text, first)
                                           : metric_uses(block.text, first);
    else
        subject.conf = conf_at(block.text, first);
    subject.source = std::move(block.source);
}

/// Collects what rules find, each thing once.
class Findings {
public:
    explicit Findings(const LintRequest& request)
        : file_(request.file), silencer_(request.text), rules_(all_rules()) {}

    /// All rules, or those that `wanted` lets pass.
    void collect(const Subject& subject, const std::function<bool(std::string_view)>& wanted = {}) {
        for (const auto& rule : rules_)
            if (!wanted || wanted(rule.name))
                for (auto& hit : rule.check(subject))
                    take(rule, std::move(hit));
    }

    std::vector<LintFinding> by_line() && {
        std::stable_sort(findings_.begin(), findings_.end(),
                         [](const auto& a, const auto& b) { return a.line < b.line; });
        return std::move(findings_);
    }

private:
    void take(const Rule& rule, RuleHit hit) {
        if (!seen_.emplace(hit.line, rule.name, hit.message).second)
            return;
        LintFinding finding{file_,
                            hit.line,
                            rule.severity,
                            std::string(rule.name),
                            std::move(hit.message),
                            std::string(rule.why),
                            hit.fix.empty() ? std::string(rule.fix) : std::move(hit.fix),
                            std::move(hit.edits)};
        if (!silencer_.silences(finding))
            findings_.push_back(std::move(finding));
    }

    const std::string& file_;
    const Silencer silencer_;
    const std::vector<Rule> rules_;
    std::vector<LintFinding> findings_;
    std::set<std::tuple<int, std::string_view, std::string>> seen_;
};

void collect_block(Subject& subject, DocumentBlock block, Findings& findings) {
    const auto silenced = block.silenced;
    fill_block(subject, std::move(block));
    findings.collect(subject, [&](std::string_view rule) {
        return (!subject.excerpt || judges_excerpts(rule)) && !silenced.contains(std::string(rule));
    });
    if (subject.kind == FileKind::script)
        for (auto& inner : here_document_blocks(subject))
            collect_block(subject, std::move(inner), findings);
}

}  // namespace

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
    Findings findings(request);
    if (subject.kind == FileKind::document) {
        for (auto& block : document_blocks(request.text))
            collect_block(subject, std::move(block), findings);
    } else {
        fill(subject, request);
        findings.collect(subject);
        for (auto& block : here_document_blocks(subject))
            collect_block(subject, std::move(block), findings);
    }
    return std::move(findings).by_line();
}

}  // namespace autolaunch::launcher
