#pragma once
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace autolaunch {

/// What is to be woken when all waiting is in vain. Once aborted, it stays so.
///
/// Owner: by shared_ptr, whoever aborts and the hooks. Threads: any. Blocks: while a hook runs.
class AbortHooks : public std::enable_shared_from_this<AbortHooks> {
public:
    using Hook = std::function<void(const std::string& reason)>;

    /// `hook` is called once at most, by whoever aborts, or here where that is over already; no
    /// more once the result is gone. It must not add or remove hooks.
    [[nodiscard]] std::shared_ptr<void> add(Hook hook) {
        const std::scoped_lock lock(mutex_);
        if (aborted_)
            hook(reason_);
        const auto at = hooks_.insert(hooks_.end(), std::move(hook));
        const auto remove = [self = shared_from_this(), at](void*) {
            const std::scoped_lock removing(self->mutex_);
            self->hooks_.erase(at);
        };
        return {static_cast<void*>(this), remove};
    }

    /// What explain() does. Before others can call it.
    void set_explanation(std::function<void()> explanation) {
        explanation_ = std::move(explanation);
    }
    /// Within a catch clause: throws something better, where what was caught comes of the abort.
    void explain() const {
        if (explanation_)
            explanation_();
    }

    void abort_all(const std::string& reason) {
        const std::scoped_lock lock(mutex_);
        if (std::exchange(aborted_, true))
            return;
        reason_ = reason;
        for (const Hook& hook : hooks_)
            hook(reason);
    }

private:
    std::mutex mutex_;
    std::list<Hook> hooks_;
    std::function<void()> explanation_;
    bool aborted_ = false;
    std::string reason_;
};

}  // namespace autolaunch
