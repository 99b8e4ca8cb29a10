#include "stage_out/out_copy.hpp"

#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/room_on_disk.hpp"
#include "base/text.hpp"
#include "base/url.hpp"
#include "exit_codes/exit_error.hpp"
#include "stage_cache/tree.hpp"
#include "stage_out/name_clash.hpp"
#include "stage_out/out_journal.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostNamed = 3;  // of files that are left out on purpose
constexpr int kAttempts = 3;           // where others write the same names

/// Where no step knows its own: what is written here is a journal, all else is read.
int code_of(const Error& error) {
    const auto* system = dynamic_cast<const SystemError*>(&error);
    if (system == nullptr)
        return exit_code_of(error);
    switch (system->error_number()) {
        case EMFILE:
        case ENFILE:
        case ENOMEM:
        case EAGAIN:
            return exit_code::kSystem;
        default:
            return is_want_of_room(system->error_number()) ? exit_code::kCannotCreate
                                                           : exit_code::kNoInput;
    }
}

class OutCopy {
public:
    OutCopy(const OutCopyRequest& request, const Environment& environment)
        : request_(request),
          order_(request.folder.order()),
          throttle_(order_.bytes_per_second),
          environment_(environment) {}

    OutDone run() {
        const auto began = Deadline::Clock::now();
        OutDone done{.name = request_.entry.name};
        guarded([this] { copy_all(); });
        done.files = request_.counters.files;
        done.bytes = copied_bytes_;
        done.found_files = request_.counters.found_files;
        done.left_files = count_of(files_) - skipped_ - done.files;
        done.left_bytes = bytes_of(files_) - copied_bytes_;
        if (failure_) {
            done.exit_code = failure_->exit_code;
            done.what = failure_->what;
            done.hint = failure_->hint;
            if (failures_ > 1)
                done.what += fmt::format(" (and {} more)", failures_ - 1);
        }
        done.took = elapsed_since(began);
        return done;
    }

private:
    void copy_all() {
        const OutEntry& entry = request_.entry;
        files_ = request_.folder.walk(entry.name);
        request_.will_copy(bytes_of(files_));
        known_ = parse_journal(request_.folder.read_journal(entry.name));
        journal_ = request_.folder.open_journal(entry.name);
        if (is_shared())
            claim_names(order_, entry.name, files_, request_.note);
        open_target();
        make_folders_there();
        work_side_by_side();
        target_->finish();
        leave_out_others();
        if (!failure_ && request_.removes) {
            require_nothing_new();
            request_.folder.remove(entry.name);
        }
    }

    /// What cannot be made there, or listed here, keeps no other from being copied.
    void make_folders_there() {
        for (const OutFile& file : files_)
            guarded([&] {
                if (file.kind == OutFile::Kind::closed)
                    throw FileError(exit_code::kNoInput,
                                    "cannot list " + path_here(file) + ": " + file.target,
                                    "chmod u+rwx it");
                if (file.kind == OutFile::Kind::folder && !is_stopped_)
                    target_->make_folder(file);
            });
    }

    /// What goes wrong is of this step alone: also what no Error is, such as a want of memory.
    template <class Step>
    void guarded(Step step) {
        try {
            step();
        } catch (const Error& error) {
            note_failure(error);
        } catch (const std::exception& error) {
            note_failure(as_exit_error(error));
        }
    }

    /// A process that has outlived its rank may have written more meanwhile.
    void require_nothing_new() const {
        const auto now = request_.folder.walk(request_.entry.name);
        const auto is_known = [this](const OutFile& file) {
            const auto seen = std::lower_bound(
                files_.begin(), files_.end(), file.path,
                [](const OutFile& one, const std::string& path) { return one.path < path; });
            return seen != files_.end() && seen->path == file.path && seen->kind == file.kind &&
                   (file.kind != OutFile::Kind::file ||
                    (seen->bytes == file.bytes && seen->mtime_ns == file.mtime_ns));
        };
        for (const OutFile& file : now)
            if (!is_known(file))
                throw FileError(exit_code::kNoInput,
                                path_here(file) + " was written while the others were copied",
                                "somebody still writes there; autolaunch stage-out copies it");
    }

    /// Other nodes may write the same names.
    bool is_shared() const { return order_.nodes > 1 && !request_.entry.by_node; }

    void open_target() {
        const std::string& to = request_.entry.to;
        const std::string node = request_.entry.by_node ? as_node_folder(order_.node) : "";
        const OutTerms terms{
            .counters = &request_.counters,
            .throttle = &throttle_,
            .mark = request_.folder.path().filename().string() + '/' + request_.entry.name,
            .may_resume = !is_shared()};
        target_ = is_url(to)
                      ? make_bucket_target(node.empty() ? to : to + node + '/', terms, environment_)
                      : make_folder_target(node.empty() ? to : to + '/' + node, terms);
    }

    void work_side_by_side() {
        std::vector<std::jthread> threads;
        try {
            for (int i = 1; i < request_.threads && static_cast<std::size_t>(i) < files_.size();
                 ++i)
                threads.emplace_back([this] { work(); });
        } catch (const std::system_error&) {
            // Where no more can be started, fewer do it.
        }
        work();
    }

    void work() {
        for (std::size_t at; !is_stopped_ && (at = next_++) < files_.size();) {
            const OutFile& file = files_[at];
            if (file.kind == OutFile::Kind::link)
                guarded([&] { copy_link(file); });
            else if (file.kind == OutFile::Kind::file)
                guarded([&] { copy_file(file); });
        }
    }

    // Somebody may publish the name between the look and the copy: then it is looked at again.
    void copy_file(const OutFile& file) {
        for (int attempt = 0; attempt < kAttempts; ++attempt) {
            const bool replaces = may_replace(file);
            if (is_counted(file))
                return;
            const UniqueFd from = request_.folder.open_file(request_.entry.name, file);
            if (!from)
                cannot_read_here(file, errno);
            Digest128 digest;
            if (target_->put(file, from.get(), replaces, digest) == OutTarget::Put::done)
                return count(file, digest, false);
            request_.counters.bytes -= file.bytes;
        }
        throw FileError(exit_code::kCannotCreate,
                        target_->shown(file.path) + " comes and goes while it is written",
                        "try again once nobody else writes there");
    }

    /// Looks at what has that name there: counts the file where it is the same, throws where it is
    /// another one that stays. True where it may be replaced.
    bool may_replace(const OutFile& file) {
        const auto there = target_->look(file.path);
        if (!there)
            return false;
        const auto known = known_.find(file.path);
        const bool is_known = known != known_.end();
        if (is_known && there->is_file && there->bytes == file.bytes &&
            known->second.bytes == file.bytes && known->second.mtime_ns == file.mtime_ns &&
            there->mtime_ns == file.mtime_ns) {
            count(file, known->second.digest, true);
            return false;
        }
        if (!there->is_file)
            clash(file, "is there, and no file", "name another folder in `to`, or move it away");
        const Digest128 digest = target_->digest(file.path);
        if (there->bytes == file.bytes && digest == digest_here(file)) {
            count(file, digest, true);
            return false;
        }
        if (request_.entry.may_overwrite || (is_known && known->second.digest == digest))
            return true;
        clash(file, "is there already, with another content");
    }

    [[noreturn]] void clash(
        const OutFile& file, const std::string& what,
        const char* remedy = "name another folder in `to`, or say overwrite: true") const {
        const std::string there = target_->shown(file.path) + ' ' + what;
        const auto others = is_shared() ? who_claims(order_, request_.entry.name, file.path)
                                        : std::vector<std::string>();
        if (others.empty())
            throw FileError(exit_code::kCannotCreate,
                            there + ": that of " + order_.node + " stays here", remedy);
        throw FileError(exit_code::kCannotCreate,
                        fmt::format("{}: {} was written by {} and by {}", there, file.path,
                                    order_.node, join(others, ", ")),
                        "layout: node gives each node a folder of its own; overwrite: true lets "
                        "the later one win");
    }

    void copy_link(const OutFile& file) {
        if (!leads_within(file.path, file.target))
            throw FileError(exit_code::kBadData,
                            path_here(file) + " leads out of its folder, to " + file.target,
                            "put the file itself there");
        if (!target_->keeps_links()) {
            const std::lock_guard lock(mutex_);
            links_.push_back(file.path);
            ++skipped_;
            return;
        }
        const auto there = target_->look(file.path);
        if (there && there->link == file.target)
            return count(file, {}, true);
        if (there && (!request_.entry.may_overwrite || (!there->is_file && there->link.empty())))
            clash(file, "is there already, and another link");
        if (target_->put_link(file, there.has_value()) == OutTarget::Put::exists)
            clash(file, "is there already, and another link");
        count(file, {}, false);
    }

    /// Sockets, pipes and devices hold no data; a bucket has no links, and what they lead to is
    /// there under its own name.
    void leave_out_others() {
        std::vector<std::string> others;
        for (const OutFile& file : files_)
            if (file.kind == OutFile::Kind::other)
                others.push_back(file.path);
        skipped_ += static_cast<std::int64_t>(others.size());
        say_left_out(others, "no file, link or folder");
        say_left_out(links_, "links, which a bucket has not");
    }

    void say_left_out(const std::vector<std::string>& paths, const std::string& why) const {
        if (paths.empty())
            return;
        std::string names;
        for (std::size_t i = 0; i < std::min(paths.size(), kMostNamed); ++i)
            names += (i == 0 ? "" : ", ") + paths[i];
        if (paths.size() > kMostNamed)
            names += ", …";
        request_.note(fmt::format("{} not copied of {}: {} ({})", paths.size(), request_.entry.name,
                                  why, names));
    }

    Digest128 digest_here(const OutFile& file) const {
        const UniqueFd from = request_.folder.open_file(request_.entry.name, file);
        if (!from)
            cannot_read_here(file, errno);
        return digest_pieces(from.get(), "read " + path_here(file),
                             [this](std::string_view) { ++request_.counters.signs; });
    }

    bool is_counted(const OutFile& file) {
        const std::lock_guard lock(mutex_);
        return counted_.contains(file.path);
    }

    void count(const OutFile& file, const Digest128& digest, bool was_there) {
        if (was_there)
            target_->clear(file.path);
        const std::lock_guard lock(mutex_);
        if (file.kind == OutFile::Kind::file)
            write_all(journal_.get(), journal_line(file.path, {file.bytes, file.mtime_ns, digest}),
                      "the list of what was copied");
        counted_.insert(file.path);
        copied_bytes_ += file.bytes;
        ++request_.counters.files;
        if (was_there) {
            ++request_.counters.found_files;
            request_.counters.bytes += file.bytes;
        }
    }

    void note_failure(const Error& error) {
        const std::lock_guard lock(mutex_);
        ++failures_;
        Failure failure{code_of(error), error.what(), error.hint()};
        const bool is_of_target = dynamic_cast<const TargetError*>(&error) != nullptr;
        if (is_of_target && !is_stopped_.exchange(true))
            failure_ = failure;  // the others come of it
        if (!failure_)
            failure_ = std::move(failure);
    }

    [[noreturn]] void cannot_read_here(const OutFile& file, int error) const {
        throw FileError(exit_code::kNoInput, SystemError(error, "read " + path_here(file)).what(),
                        error == EACCES ? "chmod u+r it" : "");
    }

    std::string path_here(const OutFile& file) const {
        return (request_.folder.path_of(request_.entry.name) / file.path).string();
    }

    const OutCopyRequest& request_;
    const OutOrder& order_;
    Throttle throttle_;
    const Environment& environment_;
    std::unique_ptr<OutTarget> target_;
    std::vector<OutFile> files_;
    std::map<std::string, CopiedFile> known_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> is_stopped_{false};
    std::mutex mutex_;  ///< for what follows
    UniqueFd journal_;
    std::set<std::string> counted_;
    std::int64_t copied_bytes_ = 0, skipped_ = 0;
    std::vector<std::string> links_;
    struct Failure {
        int exit_code;
        std::string what, hint;
    };
    std::optional<Failure> failure_;
    int failures_ = 0;
};

}  // namespace

OutDone copy_out(const OutCopyRequest& request, const Environment& environment) {
    return OutCopy(request, environment).run();
}

}  // namespace autolaunch::launcher
