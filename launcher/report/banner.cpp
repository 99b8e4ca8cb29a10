#include "report/banner.hpp"

#include "exit_codes/exit_codes.hpp"
#include "report/units.hpp"

#include <fmt/format.h>

namespace autolaunch::launcher {

namespace {

std::string plural(int count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// "4 nodes x 8 ranks", or "4 nodes, 30 ranks" where they differ.
std::string size_of_job(const JobStarted& job) {
    std::string nodes = plural(job.node_count, "node");
    if (!job.spares.empty())
        nodes += fmt::format(" and {}", plural(static_cast<int>(job.spares.size()), "spare"));
    if (job.ranks_per_node)
        return fmt::format("{} x {}", nodes, plural(*job.ranks_per_node, "rank"));
    return fmt::format("{}, {}", nodes, plural(job.world_size, "rank"));
}

}  // namespace

std::string banner(const JobStarted& job, std::string_view version, const TextStyle& style) {
    std::string text = style.bold(fmt::format("autolaunch {}", version));
    text += fmt::format("   job {} {}   {}   run dir {}\n", job.run_id, job.job_name,
                        size_of_job(job), job.run_dir);
    if (!job.joined.empty())
        text += fmt::format("  joined    {}\n", job.joined);
    if (!job.nccl.empty())
        text += fmt::format("  nccl      {}\n", job.nccl);
    for (const auto& warning : job.warnings)
        text += fmt::format("  {}   {}\n", style.yellow("warning"), warning);
    return text;
}

std::string placement_line(const JobStarted& job, const GenerationStarted& started,
                           bool is_restart) {
    std::string text =
        fmt::format("  {} {}/{} rank{} as planned in {}", is_restart ? "restarted" : "placed   ",
                    started.ranks_bound, job.world_size, job.world_size == 1 ? "" : "s",
                    format_duration(started.startup));
    if (!is_restart)
        text += fmt::format(" · binding {} on {} · {}", job.binding,
                            plural(started.numa_nodes, "NUMA node"),
                            started.gpus == 0 ? "no GPUs" : plural(started.gpus, "GPU"));
    if (started.ranks_bound < job.world_size)
        text += " · `autolaunch plan` shows where the others belong";
    return text;
}

std::string preload_line(const PythonPreloaded& imports) {
    return fmt::format("  imported  {} once for all ranks in {}{}{}",
                       plural(imports.modules, "module"), format_duration(imports.took),
                       imports.as_before ? " · as in an earlier run; --preload off: not" : "",
                       imports.late.empty()
                           ? ""
                           : fmt::format(" · {} follows in each rank, at its first use: a list in "
                                         "--preload can have it, too",
                                         imports.late));
}

std::string staging_line(const DataStaging& staging) {
    return fmt::format("  staging   {}: {} of {}", staging.name,
                       format_bytes(static_cast<std::uint64_t>(staging.bytes)),
                       format_bytes(static_cast<std::uint64_t>(staging.of)));
}

std::string coming_line(const DataComes& data) {
    return fmt::format("  streams   {}: {} in {} come while ranks run", data.name,
                       format_bytes(static_cast<std::uint64_t>(data.bytes)),
                       plural(static_cast<int>(data.files), "file"));
}

std::string staged_line(const DataStaged& staged) {
    const std::string what = fmt::format("  staged    {}: {} in {}", staged.name,
                                         format_bytes(static_cast<std::uint64_t>(staged.bytes)),
                                         plural(static_cast<int>(staged.files), "file"));
    if (staged.was_here)
        return what + fmt::format(" · on this node already, {}{}",
                                  staged.is_shared ? "in the site's shared cache, " : "",
                                  format_duration(staged.took));
    return what + " in " + format_duration(staged.took) +
           (staged.is_shared ? " · into the site's shared cache" : "");
}

std::string staging_out_line(const DataStagingOut& staging) {
    return fmt::format("  copying   {} of {}: {} of {}", staging.name, staging.node,
                       format_bytes(static_cast<std::uint64_t>(staging.bytes)),
                       format_bytes(static_cast<std::uint64_t>(staging.of)));
}

std::string staged_out_line(const DataStagedOut& staged) {
    return fmt::format(
        "  copied    {} of {}: {} in {} to {} in {}{}", staged.name, staged.node,
        format_bytes(static_cast<std::uint64_t>(staged.bytes)),
        plural(static_cast<int>(staged.files), "file"), staged.to, format_duration(staged.took),
        staged.found_files == 0 ? ""
                                : fmt::format(" · {} of them there already", staged.found_files));
}

std::string left_line(const DataLeft& left) {
    std::string what = left.name.empty() ? "what its ranks have written" : left.name;
    if (left.files > 0)
        what += fmt::format(" ({} in {})", format_bytes(static_cast<std::uint64_t>(left.bytes)),
                            plural(static_cast<int>(left.files), "file"));
    else if (left.bytes > 0)
        what += " (" + format_bytes(static_cast<std::uint64_t>(left.bytes)) + " or more)";
    return fmt::format("  left      on {}: {} stays in {}: {}{}\n            there, `{}` copies it",
                       left.node, what, left.folder, left.why,
                       left.hint.empty() ? "" : "; " + left.hint, left.command);
}

std::string closing_line(const JobEnded& job, std::string_view run_dir, const TextStyle& style) {
    const std::string ran = format_duration(job.ran);
    const bool is_early = job.exit_code == exit_code::kSuccess && job.outcome == "stopped early";
    std::string text =
        is_early ? style.green(job.outcome) + " after " + ran
        : job.exit_code == exit_code::kSuccess
            ? style.green("done") + " in " + ran
            : fmt::format("{} after {} · exit code {}", style.red(job.outcome), ran, job.exit_code);
    if (job.restarts > 0)
        text += " · " + plural(job.restarts, "restart");
    if (!run_dir.empty())
        text += fmt::format(" · {}", run_dir);
    return text + '\n';
}

}  // namespace autolaunch::launcher
