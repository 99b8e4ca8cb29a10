// What a file is: by its content, then by its name.

#include "base/text.hpp"
#include "lint/lint.hpp"
#include "spec/schema.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace autolaunch::launcher {

namespace {

bool begins_with_key(std::string_view line, std::initializer_list<std::string_view> keys) {
    return std::any_of(keys.begin(), keys.end(), [line](std::string_view key) {
        return line.size() > key.size() && line[key.size()] == '=' &&
               equals_ignoring_case(line.substr(0, key.size()), key);
    });
}

bool ends_in(const std::string& file, std::initializer_list<std::string_view> ends) {
    return std::any_of(ends.begin(), ends.end(), [&](auto end) { return file.ends_with(end); });
}

/// KEY of a line `KEY: …` or `KEY:` that begins at the margin.
std::string_view top_key(std::string_view line) {
    const std::size_t colon = line.find(':');
    if (line.empty() || colon == std::string_view::npos ||
        (colon + 1 < line.size() && std::isspace(static_cast<unsigned char>(line[colon + 1])) == 0))
        return {};
    std::string_view key = line.substr(0, colon);
    if (key.size() > 2 && (key.front() == '"' || key.front() == '\'') && key.back() == key.front())
        key = key.substr(1, key.size() - 2);
    const bool word = std::all_of(key.begin(), key.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
    });
    return word ? key : std::string_view{};
}

bool is_any(std::string_view name, std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_section(std::string_view key) {
    const auto to_come = sections_to_come();
    return find_section(key) != nullptr || key == "include" ||
           std::find(to_come.begin(), to_come.end(), key) != to_come.end();
}

/// Sections that no other kind of file has. `security` and `model` stand in many.
bool is_own_section(std::string_view key) {
    return is_any(key, {"trainer", "resource_management", "slurm_config", "rendezvous", "nccl",
                        "restart", "workspace", "gpu_scheduling", "data_security"});
}

/// Where a section of ours stands at the margin, or half of what stands there may be one. Without
/// any key (but no list either) a file is one by its name.
bool is_spec(std::string_view text, bool by_name) {
    std::size_t keys = 0, sections = 0;
    bool list = false, own = false;
    for (const auto& line : split(text, '\n')) {
        list = list || line.starts_with("- ");
        const std::string_view key = top_key(line);
        if (key.empty())
            continue;
        if (key == "contact")
            return false;  // the administrator's file
        own = own || is_own_section(key);
        ++keys;
        sections += is_section(key) ? 1 : 0;
    }
    return own || (keys > 0 ? 2 * sections >= keys : by_name && !list);
}

/// Name=gpu File=…: other files have a Name, too.
bool is_gres_line(std::string_view line) {
    if (begins_with_key(line, {"AutoDetect"}))
        return true;
    const bool named = line.starts_with("Name=") || (begins_with_key(line, {"NodeName"}) &&
                                                     line.find(" Name=") != std::string_view::npos);
    return (begins_with_key(line, {"NodeName"}) &&
            line.find(" AutoDetect=") != std::string_view::npos) ||
           (named && (line.find("File=") != std::string_view::npos ||
                      line.find("Count=") != std::string_view::npos));
}

/// Of slurm.conf or gres.conf; nothing where no line is like theirs.
std::optional<FileKind> conf_kind(std::string_view text) {
    bool of_slurm = false, of_gres = false, of_dbd = false;
    for (const auto& raw : split(text, '\n')) {
        const std::string_view line = trim(raw);
        of_slurm = of_slurm ||
                   begins_with_key(line, {"NodeName", "PartitionName", "ClusterName",
                                          "SlurmctldHost", "GresTypes", "AccountingStorageType"});
        of_dbd = of_dbd || begins_with_key(line, {"DbdHost"});
        of_gres = of_gres || is_gres_line(line);
        if (line.starts_with('[') && line.ends_with(']'))
            return std::nullopt;  // a section: not Slurm's
    }
    if (of_gres)
        return FileKind::gres_conf;
    if (of_slurm)
        return FileKind::slurm_conf;
    return of_dbd ? std::optional(FileKind::other) : std::nullopt;
}

bool has_directive(std::string_view text) {
    return text.starts_with("#SBATCH") || text.find("\n#SBATCH") != std::string_view::npos;
}

/// In front of the first command, where sbatch reads it. Programs that write scripts have such
/// lines further down.
bool begins_with_directive(std::string_view text) {
    for (const auto& line : split(text, '\n')) {
        if (line.starts_with("#SBATCH"))
            return true;
        if (const auto words = trim(line); !words.empty() && !words.starts_with('#'))
            return false;
    }
    return false;
}

/// By its name a program's source.
bool is_source(const std::string& file) {
    return ends_in(file, {".py", ".pl", ".rb", ".lua", ".js", ".ts", ".c", ".cc", ".cpp", ".h",
                          ".hpp", ".rs", ".go", ".java", ".ipynb", ".bats"});
}

constexpr std::array<std::pair<std::string_view, FileKind>, 6> kKinds = {{
    {"script", FileKind::script},
    {"spec", FileKind::spec},
    {"gres.conf", FileKind::gres_conf},
    {"slurm.conf", FileKind::slurm_conf},
    {"document", FileKind::document},
    {"metrics", FileKind::metrics},
}};

}  // namespace

FileKind guess_kind(const std::string& file, std::string_view text) {
    if (text.starts_with("#!"))
        return is_run_by_shell(text) || begins_with_directive(text) ? FileKind::script
                                                                    : FileKind::other;
    const std::string name = program_name(file);
    if (name.ends_with("gres.conf"))
        return FileKind::gres_conf;
    if (name == "slurmdbd.conf")
        return FileKind::other;
    if (name.ends_with("slurm.conf"))
        return FileKind::slurm_conf;
    if (ends_in(file, {".md", ".mdx", ".markdown"}))
        return FileKind::document;
    if (begins_with_directive(text) || (has_directive(text) && !is_source(file)) ||
        ends_in(file, {".sh", ".sbatch", ".slurm", ".bash", ".job"}))
        return FileKind::script;
    if (is_metrics_file(file, text))
        return FileKind::metrics;
    if (ends_in(file, {".yaml", ".yml"}))
        return is_spec(text, true) ? FileKind::spec : FileKind::other;
    if (const auto kind = conf_kind(text))
        return *kind;
    return is_spec(text, false) ? FileKind::spec : FileKind::other;
}

std::optional<FileKind> kind_from_name(std::string_view name) {
    for (const auto& [written, kind] : kKinds)
        if (written == name)
            return kind;
    return std::nullopt;
}

std::optional<FileKind> kind_of_conf(std::string_view text) { return conf_kind(text); }

std::string kind_names() {
    std::vector<std::string> names;
    for (const auto& kind : kKinds)
        names.emplace_back(kind.first);
    const std::string last = std::exchange(names.back(), {});
    names.pop_back();
    return join(names, ", ") + " or " + last;
}

}  // namespace autolaunch::launcher
