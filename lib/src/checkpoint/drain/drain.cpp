#include "checkpoint/drain/drain.hpp"

#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/drain/drain_errors.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>
#include <vector>

namespace autolaunch {

namespace fs = std::filesystem;

Drain::Facts Drain::facts_of(const Manifest& manifest) {
    Facts facts{manifest.metric, {}};
    if (manifest.saved_unix_ms != 0)
        facts.saved_ms = manifest.saved_unix_ms;
    return facts;
}

Drain::Drain(std::shared_ptr<Storage> near, std::unique_ptr<Tier> far, DrainSettings options,
             DrainEvents events)
    : far_(std::move(far)),
      options_(std::move(options)),
      events_(std::move(events)),
      sources_({{std::move(near), options_.directory}}),
      limit_(options_.bytes_per_second) {
    sources_.insert(sources_.end(), options_.others.begin(), options_.others.end());
    if (options_.retention.keep < 1)
        throw Error(ErrorCode::invalid_argument, "a drain keeps at least 1 checkpoint");
    thread_ = std::thread([this] { run(); });
}

Drain::~Drain() {
    stop();
    thread_.join();
    if (!options_.crew || !options_.crew->is_first())
        return;
    try {
        options_.crew->order({.end = true});
    } catch (const std::exception&) {  // who cannot be told finds out by itself
    }
}

void Drain::stop() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    far_->stop();
}

void Drain::finish() {
    at_end_ = true;
    wake();
}

void Drain::wake(std::optional<std::int64_t> saved) {
    {
        const std::lock_guard lock(mutex_);
        if (saved) {
            saved_again_.insert(*saved);
            unseen_.insert(*saved);
        }
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

DrainRest Drain::rest() const {
    const std::lock_guard lock(mutex_);
    DrainRest rest{left_, progress_, failure_};
    // Of those that nobody has looked at yet, no more than will stay.
    int stay = options_.retention.keep;
    for (auto step = unseen_.rbegin(); step != unseen_.rend() && stay-- > 0; ++step)
        if (std::find(left_.begin(), left_.end(), *step) == left_.end())
            rest.steps.push_back(*step);
    std::sort(rest.steps.begin(), rest.steps.end(), std::greater<>());
    return rest;
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
                near_facts_.erase(step);
            }
        }
        try {
            if (work()) {
                pause = options_.first_pause;
                if (events_.turn_over)
                    events_.turn_over();
                continue;
            }
        } catch (const std::exception& error) {
            failed = true;
            put_off_.clear();
            const std::lock_guard lock(mutex_);
            failure_ = error.what();
        }
        if (failed && !stop_)
            note("draining to " + far_->directory().string() + " failed: " + rest().failure +
                 "; again in " + std::to_string(pause.count()) + " ms");
        set_progress({});
        if (events_.turn_over)
            events_.turn_over();
        wait_woken(failed, pause);
        pause = failed ? std::min(pause * 2, options_.longest_pause) : pause;
    }
}

void Drain::wait_woken(bool failed, std::chrono::milliseconds pause) {
    std::unique_lock lock(mutex_);
    if (failed) {
        changed_.wait_for(lock, pause, [&] { return stop_.load(); });
        return;
    }
    failure_.clear();
    idle_ = !woken_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return stop_ || woken_; });
}

DrainDecision Drain::decide() {
    std::set<std::int64_t> seen;
    {
        const std::lock_guard lock(mutex_);
        seen = unseen_;
    }
    const auto near = near_checkpoints();
    DrainDecision decision = decide_drain(near, far_checkpoints(), options_.retention, at_end_);
    const std::lock_guard lock(mutex_);
    left_ = decision.left;
    for (const std::int64_t step : seen)
        unseen_.erase(step);
    return decision;
}

bool Drain::work() {
    const DrainDecision decision = decide();
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
    clear(decision.remove);
    return false;
}

void Drain::clear(const std::vector<FarCheckpoint>& remove) {
    for (const FarCheckpoint& checkpoint : remove) {
        if (stop_)
            break;
        if (options_.needed && options_.needed().contains(checkpoint.step))
            continue;  // its turn comes after the next save
        far_->remove(checkpoint, Deadline::after(options_.copy_timeout));
        validated_.erase(checkpoint.name);
        if (events_.deleted)
            events_.deleted(far_->directory() / checkpoint.name);
    }
}

// What was published somewhere; whether it is whole shows when it is copied. Only the first source
// must answer: what another one has is then not known.
std::vector<NearCheckpoint> Drain::near_checkpoints() {
    std::vector<NearCheckpoint> found;
    held_.clear();
    for (std::size_t i = 0; i < sources_.size(); ++i)
        for (const std::int64_t step : published_in(i)) {
            if (unreadable_.contains(step) || put_off_.contains(step))
                continue;
            auto& held = held_[step];
            held.push_back(i);
            if (held.size() == 1)
                found.push_back(near_checkpoint(step, sources_[i]));
        }
    return found;
}

// In a bucket what has no manifest is named like a checkpoint, too.
std::vector<std::int64_t> Drain::published_in(std::size_t source) {
    const auto& [storage, directory] = sources_[source];
    std::vector<std::int64_t> steps;
    try {
        for (const Candidate& candidate : list_candidates(*storage, directory)) {
            if (candidate.name != checkpoint_name(candidate.step))
                continue;
            const bool is_bucket = s3::is_s3_url(directory.string());
            const auto files =
                is_bucket ? storage->list(directory / candidate.name) : std::vector<std::string>();
            if (!is_bucket || std::find(files.begin(), files.end(), kManifestName) != files.end())
                steps.push_back(candidate.step);
        }
    } catch (const Error&) {
        if (source == 0)
            throw;
    }
    return steps;
}

// One that is damaged has no metric and no date: that shows when it is copied.
NearCheckpoint Drain::near_checkpoint(std::int64_t step, const DrainSource& source) {
    if (options_.retention.keep_best == 0 && options_.retention.every_ms == 0)
        return {step};
    auto known = near_facts_.find(step);
    try {
        if (known == near_facts_.end()) {
            const Manifest manifest = Manifest::parse(manifest_in(source, step));
            known = near_facts_.emplace(step, facts_of(manifest)).first;
        }
        return {step, known->second.metric, known->second.saved_ms};
    } catch (const SystemError& error) {
        if (error.error_number() != ENOENT)  // deleted since
            throw;
    } catch (const Error&) {
    }
    return {step};
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
                known = validated_.emplace(checkpoint.name, facts_of(manifest)).first;
            }
            checkpoint.metric = known->second.metric;
            checkpoint.saved_ms = known->second.saved_ms;
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

}  // namespace autolaunch
