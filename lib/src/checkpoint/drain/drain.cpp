#include "checkpoint/drain/drain.hpp"

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

constexpr std::uint64_t kMaxManifestBytes = 1 << 28;
constexpr std::uint64_t kBlock = Manifest::kBlockBytes;

/// The checkpoint here cannot be what was saved: trying again does not help.
class DamagedHere : public Error {
public:
    explicit DamagedHere(const Error& error) : Error(error.code(), error.what(), error.hint()) {}
};

template <class Call>
auto reading_here(const Call& call) {
    try {
        return call();
    } catch (const Error& error) {
        if (error.code() == ErrorCode::corrupt) throw DamagedHere(error);
        throw;
    }
}

}  // namespace

Drain::Drain(std::shared_ptr<Storage> near, std::unique_ptr<Tier> far, DrainSettings options, DrainEvents events)
    : near_(std::move(near)), far_(std::move(far)), options_(std::move(options)), events_(std::move(events)) {
    if (options_.retention.keep < 1) throw Error(ErrorCode::invalid_argument, "a drain keeps at least 1 checkpoint");
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
}

void Drain::wake() {
    {
        const std::lock_guard lock(mutex_);
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
    if (events_.note) events_.note("checkpoint: " + text);
}

void Drain::run() {
    auto pause = options_.first_pause;
    while (!stop_) {
        bool failed = false;
        {
            const std::lock_guard lock(mutex_);
            woken_ = false;
        }
        try {
            if (work()) {
                pause = options_.first_pause;
                continue;
            }
        } catch (const std::exception& error) {
            failed = true;
            if (!stop_)
                note(std::string("draining to ") + far_->directory().string() + " failed: " + error.what() +
                     "; again in " + std::to_string(pause.count()) + " ms");
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
    const DrainDecision decision = decide_drain(near_checkpoints(), far_checkpoints(), options_.retention);
    if (decision.copy) {
        try {
            copy(*decision.copy);
        } catch (const DamagedHere& error) {
            unreadable_.insert(*decision.copy);
            note("step " + std::to_string(*decision.copy) + " is not drained, it is damaged: " + error.what());
        }
        return true;
    }
    for (const FarCheckpoint& checkpoint : decision.remove) {
        if (stop_) break;
        far_->remove(checkpoint, Deadline::after(options_.copy_timeout));
        validated_.erase(checkpoint.name);
    }
    return false;
}

// What was published here; whether it is whole shows when it is copied.
std::vector<NearCheckpoint> Drain::near_checkpoints() {
    std::vector<NearCheckpoint> found;
    for (const Candidate& candidate : list_candidates(*near_, options_.directory))
        if (candidate.name == checkpoint_name(candidate.step) && !unreadable_.contains(candidate.step))
            found.push_back({candidate.step, near_metric(candidate.name, candidate.step)});
    return found;
}

// One that cannot be read has none: its damage shows when it is copied.
std::optional<double> Drain::near_metric(const std::string& name, std::int64_t step) {
    if (options_.retention.keep_best == 0) return std::nullopt;
    if (const auto known = near_metrics_.find(step); known != near_metrics_.end()) return known->second;
    try {
        const std::string text = read_whole(*near_, options_.directory / name / kManifestName, kMaxManifestBytes);
        return near_metrics_[step] = Manifest::parse(text).metric;
    } catch (const Error&) {
        return std::nullopt;
    }
}

std::vector<FarCheckpoint> Drain::far_checkpoints() {
    std::vector<FarCheckpoint> found = far_->list();
    for (FarCheckpoint& checkpoint : found) {
        if (!checkpoint.complete) continue;
        try {
            auto known = validated_.find(checkpoint.name);
            if (known == validated_.end()) {
                const Manifest manifest = read_manifest(far_->storage(), far_->directory() / checkpoint.name);
                known = validated_.emplace(checkpoint.name, manifest.metric).first;
            }
            checkpoint.metric = known->second;
        } catch (const SystemError& error) {
            if (error.error_number() != ENOENT) throw;  // the tier does not answer: nothing is known of it
            checkpoint.complete = false;
        } catch (const Error& error) {
            if (error.code() != ErrorCode::corrupt) throw;
            checkpoint.complete = false;
        }
    }
    return found;
}

void Drain::copy(std::int64_t step) {
    const auto start = Clock::now();
    const Deadline deadline = Deadline::after(options_.copy_timeout);
    const std::string name = checkpoint_name(step);
    const fs::path from = options_.directory / name;
    std::string text;
    const Manifest manifest = reading_here([&] {
        text = read_whole(*near_, from / kManifestName, kMaxManifestBytes);
        Manifest parsed = Manifest::parse(text);
        parsed.require_complete();
        return parsed;
    });
    DrainProgress progress{step, 0, 0};
    for (const Manifest::File& file : manifest.files) progress.bytes_total += file.bytes;
    set_progress(progress);
    copied_bytes_ = 0;
    far_->prepare(name, deadline);
    const auto names = far_->storage().list(far_->unfinished(name));
    for (const Manifest::File& file : manifest.files) {
        if (!is_there(name, names, file)) copy_file(name, from, file, deadline);
        progress.bytes_done += file.bytes;
        set_progress(progress);
    }
    const fs::path path = far_->directory() / name;
    if (!far_->publish(name, text, deadline)) {
        unreadable_.insert(step);
        note(path.string() + " is another checkpoint of that step, and stays");
        return;
    }
    const std::chrono::duration<double> seconds = Clock::now() - start;
    if (events_.drained) events_.drained({step, path, copied_bytes_, seconds.count()});
}

// From an attempt before, which may have been of another checkpoint of this step.
bool Drain::is_there(const std::string& name, const std::vector<std::string>& names, const Manifest::File& file) {
    if (std::find(names.begin(), names.end(), file.name) == names.end()) return false;
    try {
        BlockReader(far_->storage(), far_->unfinished(name), file).read_all([this](auto, auto) {
            if (stop_) throw AbortedError("the drain was stopped");
        });
        return true;
    } catch (const Error& error) {
        if (error.code() == ErrorCode::corrupt) return false;
        throw;
    }
}

void Drain::copy_file(const std::string& name, const fs::path& from, const Manifest::File& file,
                      const Deadline& deadline) {
    const auto reader = reading_here([&] { return std::make_unique<BlockReader>(*near_, from, file); });
    const auto read = [&](std::uint64_t offset, std::span<std::byte> bytes) {
        if (stop_) throw AbortedError("the drain was stopped");
        if (offset % kBlock != 0 || (bytes.size() % kBlock != 0 && offset + bytes.size() != file.bytes))
            throw Error(ErrorCode::invalid_argument, "a tier asked for a part of a block");
        std::vector<std::size_t> blocks;
        for (std::uint64_t at = offset; at < offset + bytes.size(); at += kBlock) blocks.push_back(at / kBlock);
        reading_here([&] {
            reader->read(blocks, [&](std::size_t index, std::span<const std::byte> content) {
                std::memcpy(bytes.data() + (index * kBlock - offset), content.data(), content.size());
            });
        });
        copied_bytes_ += bytes.size();
        const std::lock_guard lock(mutex_);
        progress_.bytes_done += bytes.size();
    };
    far_->put(name, file, read, deadline);
}

}  // namespace autolaunch
