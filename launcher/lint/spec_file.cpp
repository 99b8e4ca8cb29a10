#include "lint/spec_file.hpp"

#include "base/text.hpp"
#include "sweep/elements.hpp"

#include <cstddef>
#include <optional>
#include <utility>

namespace autolaunch::launcher {

namespace {

std::size_t indentation(const std::string& line) {
    const std::size_t at = line.find_first_not_of(" \t");
    return at == std::string::npos ? line.size() : at;
}

bool begins_key(std::string_view line, std::string_view key) {
    line = trim(line);
    if (line.starts_with('"') || line.starts_with('\''))
        line.remove_prefix(1);
    if (!line.starts_with(key))
        return false;
    line.remove_prefix(key.size());
    if (line.starts_with('"') || line.starts_with('\''))
        line.remove_prefix(1);
    return trim(line).starts_with(':');
}

/// Block style by its indentation: {line of the deepest part found, whether it was all of them}.
std::pair<int, bool> find_path(const std::vector<std::string>& lines, std::string_view path) {
    const auto parts = split(path, '.');
    std::size_t from = 0, deepest = 0;
    std::optional<std::size_t> parent;
    int found = 0;
    for (const auto& part : parts) {
        bool hit = false;
        for (std::size_t i = from; i < lines.size() && !hit; ++i) {
            const std::string_view text = trim(lines[i]);
            if (text.empty() || text.starts_with('#'))
                continue;
            const std::size_t depth = indentation(lines[i]);
            if (parent ? depth <= deepest : depth > 0) {
                if (parent)
                    break;
                continue;
            }
            if (!begins_key(lines[i], part))
                continue;
            hit = true;
            found = static_cast<int>(i) + 1;
            parent = i;
            deepest = depth;
            from = i + 1;
        }
        if (!hit) {
            // Flow style: the key is on the line of its section.
            const bool flow = found > 0 && lines[static_cast<std::size_t>(found) - 1].find(
                                               part + ":") != std::string::npos;
            return {found, flow};
        }
    }
    return {found, true};
}

}  // namespace

int SpecFile::line_of(std::string_view path) const {
    const int line = find_path(lines, path).first;
    return line > 0 ? line : 1;
}

bool SpecFile::names(std::string_view path) const { return find_path(lines, path).second; }

SpecFile read_spec_file(const std::string& file, const std::string& text,
                        const std::map<std::string, std::string>& environment) {
    // Most specs are checked outside of a job, and read in one: what Slurm sets there counts as
    // set.
    std::map<std::string, std::string> in_job = environment;
    for (const char* name :
         {"SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE",
          "SLURM_GPUS_ON_NODE", "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "SLURM_JOB_ID",
          "SLURM_JOBID", "SLURM_JOB_NAME", "SLURM_JOB_PARTITION", "SLURM_JOB_USER",
          "SLURM_SUBMIT_DIR", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_STEP_ID",
          "SLURM_JOB_NODELIST", "SLURM_RESTART_COUNT", "SLURM_TMPDIR"})
        in_job.try_emplace(name, "1");
    SpecResult read =
        load_spec({.file = file, .overrides = {}, .environment = in_job, .text = text});
    if (read.errors.empty() && read.sweep.makes_elements())
        check_elements(read, sweep_elements(read.sweep), read.errors);
    return {file, std::move(read), split(text, '\n')};
}

}  // namespace autolaunch::launcher
