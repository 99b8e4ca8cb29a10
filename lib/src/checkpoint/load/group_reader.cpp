#include "checkpoint/load/group_reader.hpp"

#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "checkpoint/load/part_reader.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>

namespace autolaunch {

namespace {

// What tells this machine from others: it is drawn anew at every boot. 0: unknown.
std::uint64_t machine_number() {
    try {
        const std::string text = read_file("/proc/sys/kernel/random/boot_id");
        return hash64(text.data(), text.size()) | 1;
    } catch (const Error&) {
        return 0;
    }
}

// Hands the members' blocks round, one of each at a time.
class Exchange {
public:
    using Received = std::function<void(std::size_t index, const std::byte* content)>;

    Exchange(Communicator& group, std::size_t count, Received received)
        : group_(group),
          count_(count),
          rounds_(share_of_blocks(count, 0, group.size()).rounds),
          buffer_(group.allocate(static_cast<std::size_t>(group.size()) * Manifest::kBlockBytes)),
          received_(std::move(received)) {}

    ShareOfBlocks share() const { return share_of_blocks(count_, group_.rank(), group_.size()); }
    bool over() const { return round_ == rounds_; }

    // This member's next block; nothing when it has none any more.
    void pass_on(std::span<const std::byte> content) {
        auto* buffer = static_cast<std::byte*>(buffer_.data());
        std::byte* mine = buffer + static_cast<std::size_t>(group_.rank()) * Manifest::kBlockBytes;
        if (!content.empty())
            std::memcpy(mine, content.data(), content.size());
        group_.all_gather(mine, buffer, Manifest::kBlockBytes, DataType::u8).wait();
        for (int member = 0; member < group_.size(); ++member) {
            const ShareOfBlocks share = share_of_blocks(count_, member, group_.size());
            if (share.first + round_ < share.last)
                received_(share.first + round_,
                          buffer + static_cast<std::size_t>(member) * Manifest::kBlockBytes);
        }
        ++round_;
    }

private:
    Communicator& group_;
    std::size_t count_;
    std::size_t rounds_;
    std::size_t round_ = 0;
    CommunicatorBuffer buffer_;
    Received received_;
};

// The members that need the same blocks as this one; nothing when it is alone. Collective over the
// group.
std::optional<Communicator> members_alike(Communicator& group, std::span<const BlockNeed> own) {
    std::vector<std::uint64_t> places;
    for (const BlockNeed& need : own)
        places.insert(places.end(), {need.file_index, need.block});
    const std::uint64_t mine =
        places.empty() ? 0 : hash64(places.data(), places.size() * sizeof places[0]) | 1;
    std::vector<std::uint64_t> all(static_cast<std::size_t>(group.size()));
    group.all_gather(&mine, all.data(), 1, DataType::u64).wait();
    const auto shares = [&](std::uint64_t value) {
        return value != 0 && std::count(all.begin(), all.end(), value) > 1;
    };
    if (std::none_of(all.begin(), all.end(), shares))
        return std::nullopt;
    const auto first = std::find(all.begin(), all.end(), mine) - all.begin();
    return group.split(shares(mine) ? static_cast<int>(first) : -1, group.rank());
}

}  // namespace

std::optional<Communicator> ranks_of_this_node(Communicator& world) {
    if (world.size() == 1 || world.backend() == "nccl")
        return std::nullopt;
    const std::uint64_t mine = machine_number();
    std::vector<std::uint64_t> machines(static_cast<std::size_t>(world.size()));
    world.all_gather(&mine, machines.data(), 1, DataType::u64).wait();
    const auto here = std::count(machines.begin(), machines.end(), mine);
    if (here == world.size())
        return world;
    const auto first = std::find(machines.begin(), machines.end(), mine) - machines.begin();
    return world.split(here > 1 && mine != 0 ? static_cast<int>(first) : -1, world.rank());
}

void read_parts_in_group(Storage& storage, const std::filesystem::path& directory,
                         const Manifest& manifest, std::span<const ReadPart> parts,
                         std::optional<Communicator>& group, const ReadKeys& keys) {
    if (!group)
        return read_parts(storage, directory, manifest, parts, keys);
    std::vector<BlockNeed> shared, own;
    for (BlockNeed& need : blocks_needed(parts))
        (need.shared ? shared : own).push_back(std::move(need));
    std::optional<Communicator> alike = members_alike(*group, own);
    const auto copy = [&](const BlockNeed& need, std::span<const std::byte> content) {
        for (const std::size_t part : need.parts)
            copy_part(parts[part], need.block * Manifest::kBlockBytes, content);
    };
    std::exception_ptr failure;
    const auto read = [&](std::span<const BlockNeed> needs, const UseBlock& use) {
        if (failure)
            return;
        try {
            read_blocks(storage, directory, manifest, needs, use, keys);
        } catch (const std::exception&) {
            failure = std::current_exception();
        }
    };
    const auto read_together = [&](Communicator& members, std::span<const BlockNeed> needs) {
        Exchange exchange(members, needs.size(), [&](std::size_t index, const std::byte* content) {
            const std::uint64_t left = manifest.files[needs[index].file_index].content_bytes() -
                                       needs[index].block * Manifest::kBlockBytes;
            copy(needs[index], {content, std::min(left, Manifest::kBlockBytes)});
        });
        const ShareOfBlocks share = exchange.share();
        read(needs.subspan(share.first, share.last - share.first),
             [&](const BlockNeed&, std::span<const std::byte> content) {
                 exchange.pass_on(content);
             });
        // The others wait for what this member cannot give: they get something, and the load fails
        // on all.
        while (!exchange.over())
            exchange.pass_on({});
    };
    if (!shared.empty())
        read_together(*group, shared);
    if (alike)
        read_together(*alike, own);
    else
        read(own, copy);
    if (failure)
        std::rethrow_exception(failure);
}

}  // namespace autolaunch
