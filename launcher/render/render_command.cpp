#include "render/render_command.hpp"

#include "base/file_system.hpp"
#include "base/owned_folder.hpp"
#include "base/text.hpp"
#include "base/workspace.hpp"
#include "exit_codes/exit_codes.hpp"
#include "exit_codes/exit_error.hpp"
#include "render/alert_rules.hpp"
#include "render/alertmanager_files.hpp"
#include "render/channels.hpp"
#include "render/grafana_files.hpp"
#include "render/prometheus_files.hpp"
#include "render/rendered_file.hpp"
#include "render/slurm_scripts.hpp"
#include "secrets/json_text.hpp"
#include "site/site_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr int kRenderFormat = 1;
constexpr mode_t kFolderMode = 0755;  // other programs' users read them, and none is secret
constexpr std::size_t kMostRead = 16U << 20U;  // of what is there already

SiteSettings site_with_channels(const std::string& draft) {
    if (!draft.empty())
        return read_site_draft(draft);
    auto site = read_site_file();
    if (!site)
        throw ExitError(exit_code::kNoInput, ErrorCode::invalid_argument,
                        std::string("whom Alertmanager is to tell is in alerting.channels of ") +
                            kSiteFile + ", which is not there",
                        "write it (docs/site.md), or name a draft with --site FILE");
    return std::move(*site);
}

/// This program, as root would start it on every node.
std::string own_path(std::vector<std::string>& notes) {
    std::error_code error;
    const std::string path = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error)
        return "/usr/bin/autolaunch";
    if (const std::string doubt = why_not_roots_own(path); !doubt.empty())
        notes.push_back("the scripts start " + path +
                        " as root, and others may exchange it: " + doubt);
    return path;
}

std::vector<RenderedFile> files_of(const RenderRequest& request, std::vector<std::string>& notes) {
    switch (request.target) {
        case RenderTarget::prometheus:
            return prometheus_files(alert_groups());
        case RenderTarget::alertmanager:
            return alertmanager_files(read_channels(site_with_channels(request.site_file), notes));
        case RenderTarget::grafana:
            return grafana_files();
        case RenderTarget::slurm:
            break;
    }
    return slurm_scripts({own_path(notes), request.textfile_dir, request.job_mapping_dir});
}

std::vector<RenderedFile> chosen(std::vector<RenderedFile> files,
                                 const std::vector<std::string>& names) {
    if (names.empty())
        return files;
    std::vector<std::string> known;
    for (const RenderedFile& file : files)
        known.push_back(file.name);
    for (const std::string& name : names)
        if (std::find(known.begin(), known.end(), name) == known.end())
            throw UsageError(name + ": no file of this target", "one of " + join(known, ", "));
    std::erase_if(files, [&](const RenderedFile& file) {
        return std::find(names.begin(), names.end(), file.name) == names.end();
    });
    return files;
}

std::string files_json(const std::vector<RenderedFile>& files, const std::string& folder) {
    JsonText json(Secrets::show, {});
    json.object([&] {
        json.member("format", kRenderFormat);
        json.member("folder", folder.empty() ? std::optional<std::string>() : folder);
        json.member("files", [&] {
            json.array(files, [&](const RenderedFile& file) {
                json.object([&] {
                    json.member("name", file.name);
                    json.member("what", file.what);
                    json.member("executable", file.is_program);
                    json.member("text", file.text);
                });
            });
        });
    });
    return json.text() + "\n";
}

std::string printed(const std::vector<RenderedFile>& files) {
    if (files.size() == 1)
        return files.front().text;
    std::string text;
    for (const RenderedFile& file : files)
        text += (text.empty() ? "==> " : "\n==> ") + file.name + " <==\n" + file.text;
    return text;
}

/// What becomes of a file in the folder.
enum class Change { made, same, replaced };

std::vector<Change> changes_in(const OwnedFolder& folder, const std::vector<RenderedFile>& files,
                               bool overwrite) {
    std::vector<Change> changes;
    std::vector<std::string> others;
    for (const RenderedFile& file : files) {
        const auto there = folder.read(file.name, kMostRead);
        changes.push_back(!there                ? Change::made
                          : *there == file.text ? Change::same
                                                : Change::replaced);
        if (changes.back() == Change::replaced)
            others.push_back(file.name);
    }
    if (!others.empty() && !overwrite)
        throw ExitError(exit_code::kCannotCreate, ErrorCode::invalid_argument,
                        folder.path().string() + " has " + join(others, ", ") +
                            " already, with another content; nothing was written",
                        "--force replaces them; what was changed in them by hand is lost then. "
                        "Another --output shows the difference: diff -r");
    return changes;
}

// By whoever may read it.
void make_executable(const OwnedFolder& folder, const std::string& name) {
    struct stat facts = {};
    if (::fstatat(folder.fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0 ||
        ::fchmodat(folder.fd(), name.c_str(),
                   (facts.st_mode | (facts.st_mode & 0444U) >> 2U) & 0777U, 0) != 0)
        throw SystemError(errno, "make " + (folder.path() / name).string() + " executable");
}

std::string write_files(const std::vector<RenderedFile>& files, const RenderRequest& request) {
    set_workspace({.folder = kFolderMode});
    const OwnedFolder folder = OwnedFolder::make(request.folder);
    const std::vector<Change> changes = changes_in(folder, files, request.overwrite);
    std::string text;
    for (std::size_t i = 0; i < files.size(); ++i) {
        const RenderedFile& file = files[i];
        if (changes[i] != Change::same)
            folder.replace(file.name, file.text);
        if (file.is_program)
            make_executable(folder, file.name);
        text += (folder.path() / file.name).string() + ": " + file.what +
                (changes[i] == Change::same       ? " (was there already)"
                 : changes[i] == Change::replaced ? " (replaced)"
                                                  : "") +
                "\n";
    }
    return text;
}

}  // namespace

RenderOutcome run_render_command(const RenderRequest& request) {
    RenderOutcome outcome;
    const std::vector<RenderedFile> files = chosen(files_of(request, outcome.notes), request.files);
    std::string written;
    if (!request.folder.empty()) {
        try {
            written = write_files(files, request);
        } catch (const SystemError& error) {
            throw ExitError(exit_code::kCannotCreate, error.code(), error.what(), error.hint());
        }
    }
    outcome.text = request.json             ? files_json(files, request.folder)
                   : request.folder.empty() ? printed(files)
                                            : written;
    return outcome;
}

}  // namespace autolaunch::launcher
