#include "checkpoint/drain/drain.hpp"

#include "base/hash.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/load/block_reader.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

/// The checkpoint here cannot be what was saved, or is of another version: trying again does not
/// help.
class DamagedHere : public Error {
public:
    explicit DamagedHere(const Error& error) : Error(error.code(), error.what(), error.hint()) {}
};

/// Its storage gave an error: others may be drained meanwhile.
class UnreadableHere : public Error {
public:
    explicit UnreadableHere(const Error& error) : Error(error.code(), error.what(), error.hint()) {}
};

template <class Call>
auto reading_here(const Call& call) {
    try {
        return call();
    } catch (const SystemError& error) {
        if (error.error_number() == ENOENT)  // deleted since
            throw;
        throw UnreadableHere(error);
    } catch (const Error& error) {
        if (error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported)
            throw DamagedHere(error);
        throw;
    }
}

}  // namespace

Drain::Drain(std::shared_ptr<Storage> near, std::unique_ptr<Tier> far, DrainSettings options,
             DrainEvents events)
    : near_(std::move(near)),
      far_(std::move(far)),
      options_(std::move(options)),
      events_(std::move(events)) {
    if (options_.retention.keep < 1)
        throw Error(ErrorCode::invalid_argument, "a drain keeps at least 1 checkpoint");
    thread_ = std::thread([this] { run(); });
}

Drain::~Drain() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    far_->stop();
    thread_.join();
    if (!options_.crew || !options_.crew->is_first())
        return;
    try {
        options_.crew->order({.end = true});
    } catch (const std::exception&) {  // who cannot be told finds out by itself
    }
}

void Drain::wake(std::optional<std::int64_t> saved) {
    {
        const std::lock_guard lock(mutex_);
        if (saved)
            saved_again_.insert(*saved);
        woken_ = true;
        idle_ = false;
    }
    changed_.notify_all();
}

bool Drain::wait_idle(const Deadline& deadline) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline.at(), [&] { return idle_; });
}

DrainProgress Drain::progress() const {
    const std::lock_guard lock(mutex_);
    return progress_;
}

void Drain::set_progress(const DrainProgress& progress) {
    const std::lock_guard lock(mutex_);
    progress_ = progress;
}

void Drain::note(const std::string& text) const {
    if (events_.note)
        events_.note("checkpoint: " + text);
}

void Drain::run() {
    if (options_.crew && !options_.crew->is_first())
        return follow();
    auto pause = options_.first_pause;
    while (!stop_) {
        bool failed = false;
        {
            const std::lock_guard lock(mutex_);
            woken_ = false;
            for (const std::int64_t step : std::exchange(saved_again_, {})) {
                unreadable_.erase(step);
                near_metrics_.erase(step);
            }
        }
        try {
            if (work()) {
                pause = options_.first_pause;
                continue;
            }
        } catch (const std::exception& error) {
            failed = true;
            put_off_.clear();
            if (!stop_)
                note(std::string("draining to ") + far_->directory().string() + " failed: " +
                     error.what() + "; again in " + std::to_string(pause.count()) + " ms");
        }
        set_progress({});
        std::unique_lock lock(mutex_);
        if (failed) {
            changed_.wait_for(lock, pause, [&] { return stop_.load(); });
            pause = std::min(pause * 2, options_.longest_pause);
        } else {
            idle_ = !woken_;
            changed_.notify_all();
            changed_.wait(lock, [&] { return stop_ || woken_; });
        }
    }
}

bool Drain::work() {
    const DrainDecision decision =
        decide_drain(near_checkpoints(), far_checkpoints(), options_.retention);
    if (decision.copy) {
        try {
            copy(*decision.copy);
        } catch (const DamagedHere& error) {
            unreadable_.insert(*decision.copy);
            note("step " + std::to_string(*decision.copy) + " is not drained, " +
                 (error.code() == ErrorCode::corrupt ? "it is damaged: "
                                                     : "this version cannot read it: ") +
                 error.what());
        } catch (const UnreadableHere& error) {
            put_off_.emplace(*decision.copy, error);
        }
        return true;
    }
    if (!put_off_.empty())
        throw Error(put_off_.rbegin()->second);
    for (const FarCheckpoint& checkpoint : decision.remove) {
        if (stop_)
            break;
        far_->remove(checkpoint, Deadline::after(options_.copy_timeout));
        validated_.erase(checkpoint.name);
        if (events_.deleted)
            events_.deleted(far_->directory() / checkpoint.name);
    }
    return false;
}

// What was published here; whether it is whole shows when it is copied.
std::vector<NearCheckpoint> Drain::near_checkpoints() {
    std::vector<NearCheckpoint> found;
    for (const Candidate& candidate : list_candidates(*near_, options_.directory))
        if (candidate.name == checkpoint_name(candidate.step) &&
            !unreadable_.contains(candidate.step) && !put_off_.contains(candidate.step))
            found.push_back({candidate.step, near_metric(candidate.name, candidate.step)});
    return found;
}

// One that is damaged has none: that shows when it is copied.
std::optional<double> Drain::near_metric(const std::string& name, std::int64_t step) {
    if (options_.retention.keep_best == 0)
        return std::nullopt;
    if (const auto known = near_metrics_.find(step); known != near_metrics_.end())
        return known->second;
    try {
        const std::string text =
            read_whole(*near_, options_.directory / name / kManifestName, kMaxManifestBytes);
        return near_metrics_[step] = Manifest::parse(text).metric;
    } catch (const SystemError& error) {
        if (error.error_number() == ENOENT)  // deleted since
            return std::nullopt;
        throw;
    } catch (const Error&) {
        return std::nullopt;
    }
}

std::vector<FarCheckpoint> Drain::far_checkpoints() {
    std::vector<FarCheckpoint> found = far_->list();
    for (FarCheckpoint& checkpoint : found) {
        if (!checkpoint.complete)
            continue;
        try {
            auto known = validated_.find(checkpoint.name);
            if (known == validated_.end()) {
                const Manifest manifest =
                    read_manifest(far_->storage(), far_->directory() / checkpoint.name);
                known = validated_.emplace(checkpoint.name, manifest.metric).first;
            }
            checkpoint.metric = known->second;
        } catch (const SystemError& error) {
            if (error.error_number() != ENOENT)
                throw;  // the tier does not answer: nothing is known of it
            checkpoint.complete = false;
        } catch (const Error& error) {
            if (error.code() != ErrorCode::corrupt)
                throw;
            checkpoint.complete = false;
        }
    }
    return found;
}

std::string Drain::manifest_here(std::int64_t step) {
    return read_whole(*near_, options_.directory / checkpoint_name(step) / kManifestName,
                      kMaxManifestBytes);
}

void Drain::copy(std::int64_t step) {
    const auto start = Clock::now();
    const Deadline deadline = Deadline::after(options_.copy_timeout);
    const std::string name = checkpoint_name(step);
    std::string text;
    const Manifest manifest = reading_here([&] {
        text = manifest_here(step);
        Manifest parsed = Manifest::parse(text);
        parsed.require_complete();
        return parsed;
    });
    copied_bytes_ = 0;
    far_->prepare(name, deadline);
    if (!all_there(step, manifest, copy_with_crew(step, text, manifest, deadline)))
        return;
    const fs::path path = far_->directory() / name;
    if (!far_->publish(name, text, deadline)) {
        unreadable_.insert(step);
        note(path.string() + " is another checkpoint of that step, and stays");
        return;
    }
    const std::chrono::duration<double> seconds = Clock::now() - start;
    if (events_.drained)
        events_.drained({step, path, copied_bytes_, seconds.count()});
}

// The files that are in the far tier now. The others' answers are waited for even where this node's
// copy failed, so that nobody writes when it is tried again.
std::set<std::string> Drain::copy_with_crew(std::int64_t step, const std::string& text,
                                            const Manifest& manifest, const Deadline& deadline) {
    if (options_.crew)
        options_.crew->order({step, hash64(text.data(), text.size())});
    std::exception_ptr failure;
    std::set<std::string> put;
    try {
        const auto mine = copy_files(step, manifest, deadline);
        put.insert(mine.begin(), mine.end());
    } catch (const std::exception&) {
        failure = std::current_exception();
    }
    if (options_.crew)
        put.merge(options_.crew->collect(deadline, [this] { return stop_.load(); }));
    if (failure)
        std::rethrow_exception(failure);
    return put;
}

// Those that this node has.
std::vector<std::string> Drain::copy_files(std::int64_t step, const Manifest& manifest,
                                           const Deadline& deadline) {
    const std::string name = checkpoint_name(step);
    const fs::path from = options_.directory / name;
    const auto here = near_->list(from);
    std::vector<const Manifest::File*> files;
    DrainProgress progress{step, 0, 0};
    for (const Manifest::File& file : manifest.files) {
        if (options_.crew && !std::binary_search(here.begin(), here.end(), file.name))
            continue;
        files.push_back(&file);
        progress.bytes_total += file.bytes;
    }
    set_progress(progress);
    const auto names = far_->storage().list(far_->unfinished(name));
    std::vector<std::string> there;
    for (const Manifest::File* file : files) {
        if (!is_there(name, names, *file))
            copy_file(name, from, *file, deadline);
        there.push_back(file->name);
        progress.bytes_done += file->bytes;
        set_progress(progress);
    }
    return there;
}

// What no node has may have been copied before its node was lost.
bool Drain::all_there(std::int64_t step, const Manifest& manifest,
                      const std::set<std::string>& put) {
    const std::string name = checkpoint_name(step);
    std::vector<std::string> names;
    for (const Manifest::File& file : manifest.files) {
        if (put.contains(file.name))
            continue;
        if (names.empty())
            names = far_->storage().list(far_->unfinished(name));
        if (is_there(name, names, file))
            continue;
        unreadable_.insert(step);
        note("step " + std::to_string(step) + " is not drained: no node has all of " + file.name);
        return false;
    }
    return true;
}

// In a crew, but not its first. What fails is the first one's to try again.
void Drain::follow() {
    try {
        while (!stop_) {
            const auto order = options_.crew->wait_order();
            if (order && order->end)
                break;
            if (order)
                obey(*order);
        }
    } catch (const std::exception& error) {
        if (!stop_)
            note(std::string("no more draining from this node: ") + error.what());
    }
    const std::lock_guard lock(mutex_);
    idle_ = true;
    changed_.notify_all();
}

void Drain::obey(const DrainCrew::Order& order) {
    const std::string step = "step " + std::to_string(order.step);
    copied_bytes_ = 0;
    set_progress({order.step, 0, 0});  // from here on it stays
    try {
        std::vector<std::string> files;
        try {
            const std::string text = reading_here([&] { return manifest_here(order.step); });
            if (hash64(text.data(), text.size()) == order.manifest_hash)
                files = copy_files(order.step, reading_here([&] { return Manifest::parse(text); }),
                                   Deadline::after(options_.copy_timeout));
        } catch (const DamagedHere& error) {
            note(step + " is damaged on this node: " + error.what());
        } catch (const SystemError& error) {
            if (error.error_number() != ENOENT)
                throw;  // deleted here: this node has nothing of it
        }
        options_.crew->answer(files);
    } catch (const std::exception& error) {
        options_.crew->answer_failure(error.what());
    }
    set_progress({});
}

// From an attempt before, which may have been of another checkpoint of this step.
bool Drain::is_there(const std::string& name, const std::vector<std::string>& names,
                     const Manifest::File& file) {
    if (std::find(names.begin(), names.end(), file.name) == names.end())
        return false;
    try {
        BlockReader(far_->storage(), far_->unfinished(name), file).read_all([this](auto, auto) {
            if (stop_)
                throw AbortedError("the drain was stopped");
        });
        return true;
    } catch (const Error& error) {
        if (error.code() == ErrorCode::corrupt)
            return false;
        throw;
    }
}

void Drain::copy_file(const std::string& name, const fs::path& from, const Manifest::File& file,
                      const Deadline& deadline) {
    const auto reader =
        reading_here([&] { return std::make_unique<BlockReader>(*near_, from, file); });
    const auto read = [&](std::uint64_t offset, std::span<std::byte> bytes) {
        if (stop_)
            throw AbortedError("the drain was stopped");
        if (offset % Manifest::kBlockBytes != 0 ||
            (bytes.size() % Manifest::kBlockBytes != 0 && offset + bytes.size() != file.bytes))
            throw Error(ErrorCode::invalid_argument, "a tier asked for a part of a block");
        std::vector<std::size_t> blocks;
        for (std::uint64_t at = offset; at < offset + bytes.size(); at += Manifest::kBlockBytes)
            blocks.push_back(at / Manifest::kBlockBytes);
        reading_here([&] {
            reader->read(blocks, [&](std::size_t index, std::span<const std::byte> content) {
                std::memcpy(bytes.data() + (index * Manifest::kBlockBytes - offset), content.data(),
                            content.size());
            });
        });
        copied_bytes_ += bytes.size();
        const std::lock_guard lock(mutex_);
        progress_.bytes_done += bytes.size();
    };
    far_->put(name, file, read, deadline);
}

}  // namespace autolaunch
