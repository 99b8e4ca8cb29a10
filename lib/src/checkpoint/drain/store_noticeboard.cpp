#include "checkpoint/drain/noticeboard.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/store.hpp>

#include <utility>

namespace autolaunch {

namespace {

class StoreNoticeboard final : public Noticeboard {
public:
    StoreNoticeboard(Store store, std::string prefix)
        : store_(std::move(store)), prefix_(std::move(prefix)) {}

    void post(const std::string& key, const std::string& text) override {
        store_.set(prefix_ + key, text);
    }
    std::optional<std::string> read(const std::string& key,
                                    std::chrono::milliseconds timeout) override {
        try {
            return store_.get(prefix_ + key, timeout);
        } catch (const TimeoutError&) {
            return std::nullopt;
        }
    }
    void remove(const std::string& key) override { store_.delete_key(prefix_ + key); }

private:
    Store store_;
    std::string prefix_;
};

}  // namespace

std::unique_ptr<Noticeboard> make_store_noticeboard(Store connection, std::string prefix) {
    return std::make_unique<StoreNoticeboard>(std::move(connection), std::move(prefix));
}

}  // namespace autolaunch
