#include "lint/sbatch_script.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace autolaunch::launcher {

namespace {

constexpr int kMostReplacements = 8;          // of variables that hold variables
constexpr std::size_t kMostResolved = 16384;  // bytes

/// The words of a #SBATCH line as sbatch cuts them: blanks, quotes, backslashes, # for the rest of
/// the line. Nothing is replaced, so a $ stays; that is what expansions lists.
std::vector<Word> directive_words(std::string_view text, int line) {
    std::vector<Word> words;
    Word word;
    bool open = false;
    char quote = 0;
    const auto end_word = [&] {
        if (open)
            words.push_back(word);
        word = {};
        open = false;
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quote == 0 && (c == ' ' || c == '\t' || c == '\r')) {
            end_word();
            continue;
        }
        if (quote == 0 && c == '#' && !open)
            break;
        open = true;
        word.line = line;
        word.raw += c;
        if (quote != 0 ? c == quote : c == '"' || c == '\'') {
            quote = quote != 0 ? '\0' : c;
        } else if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
            word.value += text[++i];
        } else {
            if (c == '$' || c == '`')
                word.literal = false;
            word.value += c;
        }
    }
    end_word();
    return words;
}

struct LineWalk {
    SbatchScript& script;
    bool command_seen = false;

    void take(const std::string& line, int number) {
        const std::string_view trimmed = trim(line);
        if (line.starts_with("#SBATCH")) {
            directive(line, number);
        } else if (trimmed.starts_with('#')) {
            if (looks_disguised(trimmed))
                script.disguised_directives.push_back(number);
        } else if (!trimmed.empty()) {
            command_seen = true;
        }
    }

    void directive(const std::string& line, int number) {
        if (script.shell.in_here_document(number))
            return;
        script.is_batch = true;
        if (command_seen) {
            script.late_directives.push_back(number);
            return;
        }
        const auto words = directive_words(std::string_view(line).substr(7), number);
        auto parsed = parse_slurm_options(words, SlurmProgram::sbatch);
        for (auto& option : parsed.options)
            script.options.push_back(std::move(option));
        for (auto& unknown : parsed.unknown)
            script.unknown.push_back(std::move(unknown));
        for (auto& option : parsed.of_plugins)
            script.of_plugins.push_back(std::move(option));
    }

    static bool looks_disguised(std::string_view text) {
        if (text.starts_with("##"))
            return false;  // commented out on purpose
        text = trim(text.substr(1));
        return text.starts_with("SBATCH -") || text.starts_with("SBATCH\t-");
    }
};

}  // namespace

std::optional<long long> whole_number(std::string_view text) {
    long long value = 0;
    if (!parse_integer(trim(text), value))
        return std::nullopt;
    return value;
}

std::optional<long long> gpu_count(std::string_view text) {
    long long sum = 0;
    for (const auto& part : split(text, ',')) {
        const auto count = whole_number(part.substr(part.rfind(':') + 1));  // npos + 1 is 0
        if (!count || *count < 0 || *count > 1'000'000)
            return std::nullopt;
        sum += *count;
    }
    return sum;
}

std::optional<long long> gres_gpu_count(std::string_view text) {
    std::optional<long long> sum;
    for (const auto& part : split(text, ',')) {
        const std::string_view entry = std::string_view(part).starts_with("gres/")
                                           ? std::string_view(part).substr(5)
                                           : std::string_view(part);
        if (entry != "gpu" && !entry.starts_with("gpu:"))
            continue;
        const auto fields = split(entry, ':');
        const std::string count = fields.back().substr(0, fields.back().find('('));
        const auto number = fields.size() == 1 ? std::optional(1LL) : whole_number(count);
        if (!number && fields.size() != 2)
            return std::nullopt;  // gpu:TYPE is one
        sum = sum.value_or(0) + std::clamp(number.value_or(1), 0LL, 1'000'000LL);
    }
    return sum;
}

const SlurmOption* SbatchScript::option(std::string_view name) const {
    const auto found = std::find_if(options.rbegin(), options.rend(),
                                    [&](const auto& o) { return o.name == name; });
    return found == options.rend() ? nullptr : &*found;
}

std::string SbatchScript::text(std::string_view name) const {
    const SlurmOption* found = option(name);
    return found == nullptr ? std::string() : found->value.value;
}

std::optional<long long> SbatchScript::number(std::string_view name) const {
    return whole_number(text(name));
}

std::optional<std::string> SbatchScript::variable(std::string_view name) const {
    const auto found = variables.find(name);
    if (found != variables.end())
        return found->second ? std::optional(shell.assignments[*found->second].value.value)
                             : std::nullopt;
    const auto as_text = [](std::optional<long long> number) {
        return number ? std::optional(std::to_string(*number)) : std::nullopt;
    };
    if (name == "SLURM_NNODES" || name == "SLURM_JOB_NUM_NODES")
        return as_text(nodes());
    if (name == "SLURM_NTASKS_PER_NODE")
        return as_text(number("ntasks-per-node"));
    if (name == "SLURM_NTASKS")
        return as_text(number("ntasks"));
    if (name == "SLURM_CPUS_PER_TASK")
        return as_text(number("cpus-per-task"));
    if (name == "SLURM_GPUS_ON_NODE" || name == "SLURM_GPUS_PER_NODE")
        return as_text(gpus_per_node());
    return std::nullopt;
}

const ShellAssignment* SbatchScript::only_assignment(std::string_view name) const {
    const auto found = variables.find(name);
    return found != variables.end() && found->second ? &shell.assignments[*found->second] : nullptr;
}

std::string SbatchScript::resolved(const Word& word) const {
    std::string text = word.value;
    std::vector<std::string> names = word.expansions;
    for (int round = 0; round < kMostReplacements && !names.empty(); ++round) {
        std::vector<std::string> inner;
        for (const auto& name : names) {
            const auto value = is_identifier(name) ? variable(name) : std::nullopt;
            if (!value || value->size() > kMostResolved)
                continue;
            for (const std::string& written : {"${" + name + "}", "$" + name}) {
                const std::size_t at = text.find(written);
                if (at == std::string::npos)
                    continue;
                const std::size_t after = at + written.size();
                const bool longer = written[1] != '{' && after < text.size() &&
                                    (std::isalnum(static_cast<unsigned char>(text[after])) != 0 ||
                                     text[after] == '_');
                if (longer || text.size() + value->size() > kMostResolved)
                    continue;
                text.replace(at, written.size(), *value);
                if (const ShellAssignment* assignment = only_assignment(name))
                    inner.insert(inner.end(), assignment->value.expansions.begin(),
                                 assignment->value.expansions.end());
            }
        }
        names = std::move(inner);
    }
    return text;
}

namespace {

/// LIST of "${LIST[@]}" and ${LIST[*]}.
std::string_view list_of(const Word& word) {
    std::string_view text = word.value;
    if (!text.starts_with("${") || !(text.ends_with("[@]}") || text.ends_with("[*]}")))
        return {};
    text = text.substr(2, text.size() - 6);
    return is_identifier(text) ? text : std::string_view{};
}

}  // namespace

std::vector<Word> SbatchScript::expanded(const std::vector<Word>& words) const {
    std::vector<Word> result;
    for (const auto& word : words) {
        if (const auto list = lists.find(list_of(word)); list != lists.end()) {
            const auto& elements = shell.assignments[list->second].value.elements;
            result.insert(result.end(), elements.begin(), elements.end());
            continue;
        }
        const bool one_variable =
            word.expansions.size() == 1 &&
            (word.raw == "$" + word.expansions[0] || word.raw == "${" + word.expansions[0] + "}");
        const auto value = one_variable ? variable(word.expansions[0]) : std::nullopt;
        if (!value || value->size() > kMostResolved) {
            result.push_back(word);
            continue;
        }
        std::vector<std::string> outer;
        if (const ShellAssignment* assignment = only_assignment(word.expansions[0]))
            outer = assignment->value.expansions;
        for (auto& command : parse_shell(*value, word.line).commands)
            for (auto& part : command.words) {
                std::erase_if(part.expansions,
                              [&](const std::string& name) {  // \$X is left for another shell
                                  return std::find(outer.begin(), outer.end(), name) == outer.end();
                              });
                part.line = word.line;
                result.push_back(std::move(part));
            }
    }
    return result;
}

std::optional<long long> SbatchScript::nodes() const {
    const std::string written = text("nodes");
    if (written.empty())
        return std::nullopt;
    return whole_number(written.substr(0, written.find('-')));
}

std::optional<long long> SbatchScript::tasks_per_node() const {
    if (const auto number_given = number("ntasks-per-node"))
        return number_given;
    const auto tasks = number("ntasks");
    const auto machines = nodes();
    if (tasks && machines && *machines > 0 && *tasks % *machines == 0)
        return *tasks / *machines;
    if (tasks || has("ntasks-per-gpu") || has("ntasks-per-socket") || has("ntasks-per-core"))
        return std::nullopt;
    return machines ? std::optional(1LL) : std::nullopt;
}

std::optional<long long> SbatchScript::gpus_per_node() const {
    if (has("gpus-per-node"))
        return gpu_count(text("gpus-per-node"));
    if (const auto count = gres_gpu_count(text("gres")))
        return count;
    const auto machines = nodes();
    const auto total = has("gpus") ? gpu_count(text("gpus")) : std::nullopt;
    if (total && machines && *machines > 0 && *total % *machines == 0)
        return *total / *machines;
    return std::nullopt;
}

namespace {

void index_variables(SbatchScript& script) {
    for (std::size_t i = 0; i < script.shell.assignments.size(); ++i) {
        const ShellAssignment& assignment = script.shell.assignments[i];
        if (assignment.prefix)
            continue;
        const auto [entry, first] = script.variables.try_emplace(assignment.name, i);
        if (!first || assignment.conditional || assignment.append || assignment.value.array)
            entry->second.reset();
        if (first && !assignment.conditional && !assignment.append && assignment.value.array)
            script.lists.emplace(assignment.name, i);
        else
            script.lists.erase(assignment.name);
    }
}

}  // namespace

bool is_run_by_shell(std::string_view text) {
    if (!text.starts_with("#!"))
        return true;
    std::vector<std::string> words;
    for (auto& word : split(trim(text.substr(2, text.find_first_of("\r\n") - 2)), ' '))
        if (!word.empty())
            words.push_back(word.substr(word.rfind('/') + 1));  // npos + 1 is 0
    if (!words.empty() && words[0] == "env")
        words.erase(words.begin());
    const auto name = std::find_if(words.begin(), words.end(), [](const std::string& word) {
        return !word.starts_with('-') && word.find('=') == std::string::npos;
    });
    constexpr std::array<std::string_view, 6> kShells = {"sh", "bash", "dash", "ksh", "zsh", "ash"};
    return name == words.end() || std::find(kShells.begin(), kShells.end(), *name) != kShells.end();
}

SbatchScript parse_sbatch_script(const std::string& text, int first_line) {
    SbatchScript script;
    script.lines = split(text, '\n');
    script.shell = parse_shell(is_run_by_shell(text) ? text : std::string(), first_line);
    index_variables(script);
    LineWalk walk{script};
    for (std::size_t i = 0; i < script.lines.size(); ++i)
        walk.take(script.lines[i], static_cast<int>(i) + first_line);
    for (const auto& command : script.shell.commands)
        script.is_batch = script.is_batch || command.is("srun");
    return script;
}

}  // namespace autolaunch::launcher
