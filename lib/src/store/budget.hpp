#pragma once
#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace autolaunch::store {

/// The bytes that one store may hold in all. Whoever wants more than there is loses its connection.
/// Each use has a part of its own, so that too much of one leaves the others alone.
///
/// Owner: shared by all that hold some of it. Threads: the store's one. Blocks: never.
class Budget {
public:
    enum class Use {
        table,    ///< keys, values and queues: a half
        waits,    ///< keys that clients wait for: an eighth
        passing,  ///< requests that are not whole, replies that nobody has read: the rest
    };

    explicit Budget(std::size_t limit)
        : limit_(limit), limits_{limit / 2, limit / 8, limit - limit / 2 - limit / 8} {}

    /// Throws Error{system} when there is no room, and takes nothing.
    void take(Use use, std::size_t bytes) {
        const auto part = static_cast<std::size_t>(use);
        constexpr std::array kNames = {"keys and values", "keys that are waited for",
                                       "requests and replies under way"};
        if (bytes > limits_[part] || used_[part] > limits_[part] - bytes)
            throw Error(ErrorCode::system,
                        std::string("the store is full: ") + kNames[part] + " may have " +
                            std::to_string(limits_[part] >> 10) + " KiB",
                        "set rendezvous.store_limit higher, or keep less in the store");
        used_[part] += bytes;
        peak_ = std::max(peak_, used());
    }
    void give_back(Use use, std::size_t bytes) {
        auto& used = used_[static_cast<std::size_t>(use)];
        used -= std::min(used, bytes);
    }
    std::size_t used() const { return used_[0] + used_[1] + used_[2]; }
    std::size_t limit() const { return limit_; }
    /// True once when most of what was held at a time is free again: worth giving it to the system.
    bool has_emptied() {
        constexpr std::size_t kWorthIt = std::size_t{16} << 20;
        if (peak_ < kWorthIt || used() > peak_ / 2)
            return false;
        peak_ = used();
        return true;
    }

private:
    std::size_t limit_;
    std::array<std::size_t, 3> limits_;
    std::array<std::size_t, 3> used_{};
    std::size_t peak_ = 0;
};

/// What one holder has of a budget; given back when it goes. Move-only.
class Share {
public:
    explicit Share(std::shared_ptr<Budget> budget, Budget::Use use = Budget::Use::passing)
        : budget_(std::move(budget)), use_(use) {}
    Share(Share&& other) noexcept
        : budget_(std::move(other.budget_)),
          use_(other.use_),
          bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&&) = delete;
    ~Share() {
        if (budget_)
            budget_->give_back(use_, bytes_);
    }

    std::size_t bytes() const { return bytes_; }
    /// It now holds so many. Throws as Budget::take(), and holds what it held.
    void resize(std::size_t bytes) {
        if (bytes > bytes_)
            budget_->take(use_, bytes - bytes_);
        else
            budget_->give_back(use_, bytes_ - bytes);
        bytes_ = bytes;
    }
    /// No more than so many: throws never.
    void shrink(std::size_t most) { resize(std::min(bytes_, most)); }

private:
    std::shared_ptr<Budget> budget_;
    Budget::Use use_;
    std::size_t bytes_ = 0;
};

/// Of what every client may hold without being charged: who asks for little is served however full
/// the store is.
inline constexpr std::size_t kFreeBytes = 1024;

inline std::size_t beyond_free(std::size_t bytes) { return bytes - std::min(bytes, kFreeBytes); }

}  // namespace autolaunch::store
