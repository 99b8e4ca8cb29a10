#include "session/generation_watch.hpp"

#include <autolaunch/error.hpp>

#include <utility>

namespace autolaunch {

void GenerationWatch::begin() {
    const std::scoped_lock lock(mutex_);
    begun_ = true;
}

void GenerationWatch::end() {
    const std::scoped_lock lock(mutex_);
    begun_ = false;
    changed_.notify_all();
}

void GenerationWatch::over(const std::string& reason) {
    {
        const std::scoped_lock lock(mutex_);
        if (over_)
            return;
        over_ = true;
        reason_ = reason;
    }
    changed_.notify_all();
    hooks_->abort_all("generation " + std::to_string(generation_) + " is over: " + reason);
}

bool GenerationWatch::is_over() const {
    const std::scoped_lock lock(mutex_);
    return over_;
}

void GenerationWatch::end_before_leaving(End end) {
    const std::scoped_lock lock(mutex_);
    ends_.push_back(std::move(end));
}

void GenerationWatch::await_ends(const Deadline& deadline) const {
    std::vector<End> ends;
    {
        const std::scoped_lock lock(mutex_);
        ends = ends_;
    }
    for (const End& end : ends)
        end(deadline);
}

bool GenerationWatch::comes() const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kWordTime, [this] { return over_ || !begun_; });
    return over_;
}

void GenerationWatch::throw_if_explained() const {
    try {
        throw;
    } catch (const GenerationChanged&) {
        throw;
    } catch (const Error& error) {
        const bool may_be = error.code() == ErrorCode::closed || error.code() == ErrorCode::aborted;
        if ((may_be && comes()) || is_over())
            throw GenerationChanged(generation_, reason_);
    } catch (...) {  // the caller's
    }
}

}  // namespace autolaunch
