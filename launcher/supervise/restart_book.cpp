#include "supervise/restart_book.hpp"

#include "base/file_system.hpp"
#include "base/owned_folder.hpp"
#include "supervise/run_directory.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>

namespace autolaunch::launcher {

namespace {

constexpr char kRestartsFile[] = "restarts.json";
constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr mode_t kReadableByGroup = 0640;

// By its folder, which must be ours, as the file must: in a place for all somebody else may have
// put one there, or a link, or a pipe that nobody writes to.
std::string read_or_nothing(const std::filesystem::path& path) {
    try {
        if (!path_exists(path.parent_path()))
            return {};
        return OwnedFolder::open(path.parent_path())
            .read(path.filename(), kMostBytes)
            .value_or(std::string());
    } catch (const SystemError& error) {
        if (error.error_number() == ENOENT)
            return {};
        throw RunDirectoryError(error.code(), error.what(),
                                "it has the job's restart budgets; make it readable, or move it "
                                "away to begin with full ones");
    } catch (const Error& error) {
        throw RunDirectoryError(error.code(), error.what(), error.hint());
    }
}

}  // namespace

RestartBook::RestartBook(const LaunchPlan& plan)
    : plan_(plan), path_(std::filesystem::path(plan.run_dir) / kRestartsFile) {
    history_.run_id = plan.run_id;
    const std::string text = read_or_nothing(path_);
    if (text.empty())
        return;
    const auto known = restart_history_from(text);
    if (!known)
        throw RunDirectoryError(ErrorCode::corrupt, path_.string() + " is damaged",
                                "it had the job's restart budgets; move it away to begin with full "
                                "ones");
    if (known->run_id == plan.run_id)
        history_ = *known;
}

void RestartBook::adopt(const RestartHistory& history) {
    const auto read = history_.checkpoint_step;
    history_ = history;
    history_.checkpoint_step = std::max(history.checkpoint_step, read);
}

Decision RestartBook::decide(const Situation& situation) const {
    return launcher::decide(plan_.spec.restart, history_, situation);
}

std::string RestartBook::note(const Decision& decision) {
    history_.ends.push_back(decision.end);
    return write();
}

void RestartBook::remember_lost(const std::string& node) {
    std::erase_if(history_.lost, [&node](const NodeWord& word) { return word.node == node; });
    history_.lost.push_back({node, {}, std::chrono::system_clock::now()});
}

std::string RestartBook::note_unfit(const std::map<std::string, std::string>& found) {
    const auto known = unfit_nodes();
    bool is_news = false;
    for (const auto& [node, why] : found)
        if (!known.contains(node)) {
            history_.unfit.push_back({node, why, std::chrono::system_clock::now()});
            is_news = true;
        }
    return is_news ? write() : std::string();
}

std::string RestartBook::note_taken_back(const std::string& node) {
    history_.taken_back.push_back({node, {}, std::chrono::system_clock::now()});
    return write();
}

std::string RestartBook::note_checkpoint(std::int64_t step) {
    if (history_.checkpoint_step && *history_.checkpoint_step >= step)
        return {};
    history_.checkpoint_step = step;
    return write();
}

std::string RestartBook::write() const {
    try {
        OwnedFolder::make(plan_.run_dir)
            .replace(kRestartsFile, to_json(history_), kReadableByGroup);
        return {};
    } catch (const Error& error) {
        return std::string(
                   "after a requeue the restart budgets begin anew, and nodes that are "
                   "left out are forgotten: ") +
               error.what();
    }
}

namespace {

// Nothing where there is none of this run, or it cannot be read.
std::optional<RestartHistory> history_in(const std::string& run_dir, const std::string& run_id) {
    try {
        auto known =
            restart_history_from(read_or_nothing(std::filesystem::path(run_dir) / kRestartsFile));
        if (known && known->run_id == run_id)
            return known;
    } catch (const Error&) {
    }
    return std::nullopt;
}

}  // namespace

std::map<std::string, std::string> nodes_to_exclude(const std::string& run_dir,
                                                    const std::string& run_id) {
    const auto known = history_in(run_dir, run_id);
    return known ? nodes_to_exclude(*known) : std::map<std::string, std::string>();
}

std::set<std::string> nodes_lost_since(const std::string& run_dir, const std::string& run_id,
                                       std::chrono::system_clock::time_point since) {
    const auto known = history_in(run_dir, run_id);
    return known ? nodes_lost_since(*known, since) : std::set<std::string>();
}

bool has_saved(const std::string& run_dir, const std::string& run_id) {
    const auto known = history_in(run_dir, run_id);
    return known && known->checkpoint_step;
}

bool take_back(const std::string& run_dir, const std::string& run_id, const std::string& node) {
    const OwnedFolder folder = lock_run_directory(run_dir);
    const std::string text = read_or_nothing(std::filesystem::path(run_dir) / kRestartsFile);
    auto known = restart_history_from(text);
    if (!text.empty() && !known)
        throw RunDirectoryError(ErrorCode::corrupt, run_dir + "/restarts.json is damaged",
                                "move it away: the job begins with full budgets then, and without "
                                "nodes that are left out");
    if (!known || known->run_id != run_id || !nodes_to_exclude(*known).contains(node))
        return false;
    known->taken_back.push_back({node, {}, std::chrono::system_clock::now()});
    folder.replace(kRestartsFile, to_json(*known), kReadableByGroup);
    return true;
}

}  // namespace autolaunch::launcher
