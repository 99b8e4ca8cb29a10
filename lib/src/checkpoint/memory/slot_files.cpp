#include "checkpoint/memory/slot_files.hpp"

#include "base/deadline.hpp"
#include "base/memory_file.hpp"
#include "session/memory_request.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

namespace autolaunch::memory {

namespace {

constexpr std::chrono::seconds kAgentTimeout{30};

class AgentSlotFiles final : public SlotFiles {
public:
    AgentSlotFiles(std::filesystem::path socket, session::Hello hello, std::string group)
        : socket_(std::move(socket)), hello_(hello), group_(std::move(group)) {}

    SlotFile open(int shard, int slot, std::uint64_t bytes) override {
        const session::MemoryAsked asked{group_, shard, slot, static_cast<std::int64_t>(bytes)};
        auto granted =
            session::ask_for_memory(socket_, hello_, asked, Deadline::after(kAgentTimeout));
        return {std::move(granted.file), granted.bytes};
    }
    bool outlive_us() const override { return true; }

private:
    std::filesystem::path socket_;
    session::Hello hello_;
    std::string group_;
};

class ProcessSlotFiles final : public SlotFiles {
public:
    explicit ProcessSlotFiles(std::string group) : group_(std::move(group)) {}

    SlotFile open(int shard, int slot, std::uint64_t bytes) override {
        static std::mutex mutex;
        static std::map<std::tuple<std::string, int, int>, SlotFile> files;
        const std::scoped_lock lock(mutex);
        SlotFile& held = files[{group_, shard, slot}];
        if (bytes > held.bytes) {
            held.file = create_memory_file("autolaunch-memory", bytes);
            if (!held.file)
                throw SystemError(errno, "make a memory file for a copy of the state");
            held.bytes = bytes;
        }
        if (!held.file)
            return {};
        return {UniqueFd(::fcntl(held.file.get(), F_DUPFD_CLOEXEC, 0)), held.bytes};
    }
    bool outlive_us() const override { return false; }

private:
    std::string group_;
};

}  // namespace

std::unique_ptr<SlotFiles> make_agent_slot_files(std::filesystem::path socket, session::Hello hello,
                                                 std::string group) {
    return std::make_unique<AgentSlotFiles>(std::move(socket), hello, std::move(group));
}

std::unique_ptr<SlotFiles> make_process_slot_files(std::string group) {
    return std::make_unique<ProcessSlotFiles>(std::move(group));
}

}  // namespace autolaunch::memory
