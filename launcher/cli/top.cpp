#include "cli/top.hpp"

#include "base/file_system.hpp"
#include "exit_codes/exit_codes.hpp"
#include "exit_codes/exit_error.hpp"
#include "run/head_record.hpp"
#include "secrets/secrets.hpp"
#include "top/terminal.hpp"
#include "top/top_rows.hpp"
#include "top/watch_job.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

bool has_events(RunSource& source) {
    const auto files = source.list();
    return std::any_of(files.begin(), files.end(),
                       [](const RunFile& file) { return file.name == "events.jsonl"; });
}

/// A run directory, or the name of one in runs/; else find_head() knows what is meant.
std::string run_dir_of(const std::string& job) {
    std::error_code error;
    for (const fs::path& folder : {fs::path(job), fs::path("runs") / job}) {
        if (fs::is_directory(folder, error))
            return folder.string();
        if (error && error != std::errc::no_such_file_or_directory &&
            error != std::errc::not_a_directory)
            throw SystemError(error.value(), "open the run directory " + folder.string(),
                              "name a run directory that you may read");
    }
    return find_head(job).run_dir;
}

[[noreturn]] void refuse_folder(const std::string& run_dir) {
    throw ExitError(exit_code::kNoInput, ErrorCode::invalid_argument,
                    run_dir + " is no run directory: no events.jsonl is in it",
                    "name the folder that autolaunch printed at the job's start, such as "
                    "runs/latest");
}

/// What this machine does not see of a running job, its head may.
class HeadSource : public RunSource {
public:
    HeadSource(const JobCall& call, const std::map<std::string, std::string>& environment)
        : files_(call, environment) {}
    std::vector<RunFile> list() override { return files_.list(); }
    RunFilePart read(const std::string& name, std::uint64_t offset, std::size_t most) override {
        return files_.read(name, offset, most);
    }

private:
    JobFiles files_;
};

std::unique_ptr<RunSource> source_of(const std::string& run_dir, const CommandLine& line,
                                     const JobCall& call,
                                     const std::map<std::string, std::string>& environment) {
    std::unique_ptr<RunSource> folder = std::make_unique<FolderSource>(run_dir);
    if (has_events(*folder))
        return folder;
    std::error_code error;
    if (line.replay || !fs::exists(fs::path(run_dir) / "head.json", error))
        refuse_folder(run_dir);
    return std::make_unique<HeadSource>(JobCall{run_dir, call.secret_file}, environment);
}

}  // namespace

int top_of_job(const CommandLine& line, const JobCall& call,
               const std::map<std::string, std::string>& environment, const Screen& screen) {
    const std::string run_dir = run_dir_of(call.job);
    const std::unique_ptr<RunSource> source = source_of(run_dir, line, call, environment);
    WatchOptions options;
    options.replay = line.replay;
    options.colours = style_of_stdout().colours;
    options.charset = charset_of_environment();
    options.doubt = [run_dir] { return doubt_of_job(run_dir); };
    JobModel model(run_dir, secret_values(environment));
    const std::string no_screen = line.once ? std::string() : no_screen_here();
    if (!no_screen.empty() && line.replay)
        throw ExitError(exit_code::kUnavailable, ErrorCode::unsupported,
                        no_screen + ", and --replay needs one that keys are pressed at",
                        "autolaunch top --once, or autolaunch report, need none");
    if (!line.once && no_screen.empty()) {
        watch_job(*source, std::move(model), options);
        return exit_code::kSuccess;
    }
    if (!no_screen.empty())
        screen.complain("autolaunch: " + no_screen + ": the job is shown once, as by --once");
    const JobView view = look_at_job(*source, std::move(model), options);
    if (line.json)
        screen.print_json(top_json(view));
    else
        screen.print(top_table(view));
    return exit_code::kSuccess;
}

}  // namespace autolaunch::launcher
