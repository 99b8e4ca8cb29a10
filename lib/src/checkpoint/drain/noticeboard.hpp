#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace autolaunch {

class Store;

/// Where the drains of a job's nodes leave messages for each other. Threads: any. Blocks: each
/// call, as long as the store behind it does. Throws Error where that is gone.
class Noticeboard {
public:
    virtual ~Noticeboard() = default;

    virtual void post(const std::string& key, const std::string& text) = 0;
    /// Waits until it is there; nothing when it does not come in time.
    virtual std::optional<std::string> read(const std::string& key,
                                            std::chrono::milliseconds timeout) = 0;
    virtual void remove(const std::string& key) = 0;
};

/// On a store of the job; `prefix` parts it from others. The connection is its own, so that its
/// waits hold up nobody.
std::unique_ptr<Noticeboard> make_store_noticeboard(Store connection, std::string prefix);

}  // namespace autolaunch
