#include "checkpoint/load/node_reader.hpp"

#include "base/whole_number.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/format/json.hpp"
#include "checkpoint/load/group_reader.hpp"
#include "checkpoint/load/part_reader.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <set>
#include <utility>

namespace autolaunch {

namespace {

using Place = std::pair<std::size_t, std::size_t>;  // a file, and a block of it

std::string text_of(const std::set<Place>& places) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& [file, block] : places)
        list.push_back({file, block});
    return json_text(list);
}

std::set<Place> places_of(const std::string& text) {
    std::set<Place> places;
    for (const auto& place : parse_of_rank(text))
        places.emplace(whole_number<std::size_t>(place.at(0)),
                       whole_number<std::size_t>(place.at(1)));
    return places;
}

/// Blocks that are on other nodes only, one at a time, from those who have them to all.
class BlockExchange {
public:
    BlockExchange(Communicator& world, Storage& storage, const NodeSources& sources,
                  const Manifest& manifest, std::span<const ReadPart> parts, const ReadKeys& keys)
        : world_(world),
          storage_(storage),
          sources_(sources),
          manifest_(manifest),
          parts_(parts),
          keys_(keys),
          buffer_(Manifest::kBlockBytes) {}

    void run() {
        const auto mine = blocks_needed(parts_);
        std::map<Place, const BlockNeed*> wanted;
        for (const BlockNeed& need : mine)
            wanted[{need.file_index, need.block}] = &need;
        std::map<int, std::vector<BlockNeed>> by_owner;
        for (const Place& place : wanted_by_anybody(wanted)) {
            const auto owner = sources_.held.owner_of(place.first);
            if (!owner)
                throw Error(ErrorCode::corrupt,
                            manifest_.files.at(place.first).name + " is on no node any more");
            by_owner[*owner].push_back({place.first, place.second, false, {}});
        }
        std::exception_ptr failure;
        for (const auto& [owner, needs] : by_owner) {
            if (owner == world_.rank())
                failure = give(needs);
            else
                take(owner, needs, wanted);
        }
        together(world_, [&] {
            if (failure)
                std::rethrow_exception(failure);
        });
    }

private:
    std::set<Place> wanted_by_anybody(const std::map<Place, const BlockNeed*>& wanted) {
        std::set<Place> places;
        for (const auto& [place, need] : wanted)
            places.insert(place);
        const auto merged =
            merge_texts(world_, text_of(places), [](const std::vector<std::string>& texts) {
                std::set<Place> all;
                for (const std::string& text : texts)
                    all.merge(places_of(text));
                return text_of(all);
            });
        return places_of(merged);
    }

    void send(std::span<const std::byte> content, int root) {
        if (!content.empty())
            std::memcpy(buffer_.data(), content.data(), content.size());
        world_.broadcast(buffer_.data(), Manifest::kBlockBytes, DataType::u8, root).wait();
    }

    // The others wait for what it cannot read: they get something, and the load fails on all.
    std::exception_ptr give(const std::vector<BlockNeed>& needs) {
        std::size_t given = 0;
        std::exception_ptr failure;
        try {
            read_blocks(
                storage_, sources_.here, manifest_, needs,
                [&](const BlockNeed&, std::span<const std::byte> content) {
                    send(content, world_.rank());
                    ++given;
                },
                keys_);
        } catch (const std::exception&) {
            failure = std::current_exception();
        }
        for (; given < needs.size(); ++given)
            send({}, world_.rank());
        return failure;
    }

    void take(int owner, const std::vector<BlockNeed>& needs,
              const std::map<Place, const BlockNeed*>& wanted) {
        for (const BlockNeed& need : needs) {
            send({}, owner);
            const auto found = wanted.find({need.file_index, need.block});
            if (found == wanted.end())
                continue;
            const std::uint64_t left = manifest_.files[need.file_index].content_bytes() -
                                       need.block * Manifest::kBlockBytes;
            for (const std::size_t part : found->second->parts)
                copy_part(parts_[part], need.block * Manifest::kBlockBytes,
                          {buffer_.data(), std::min(left, Manifest::kBlockBytes)});
        }
    }

    Communicator& world_;
    Storage& storage_;
    const NodeSources& sources_;
    const Manifest& manifest_;
    std::span<const ReadPart> parts_;
    ReadKeys keys_;
    std::vector<std::byte> buffer_;
};

}  // namespace

void read_parts_of_nodes(Communicator& world, Storage& storage, const NodeSources& sources,
                         const std::vector<int>& leaders, const Manifest& manifest,
                         std::span<const ReadPart> parts, std::optional<Communicator>& group,
                         const ReadKeys& keys) {
    const auto held = sources.held.files.find(leaders.at(static_cast<std::size_t>(world.rank())));
    std::vector<ReadPart> here, elsewhere;
    for (const ReadPart& part : parts) {
        const bool is_here =
            held != sources.held.files.end() && held->second.contains(part.file_index);
        (is_here ? here : elsewhere).push_back(part);
    }
    together(world,
             [&] { read_parts_in_group(storage, sources.here, manifest, here, group, keys); });
    if (sources.far.empty())
        return BlockExchange(world, storage, sources, manifest, elsewhere, keys).run();
    together(world,
             [&] { read_parts_in_group(storage, sources.far, manifest, elsewhere, group, keys); });
}

}  // namespace autolaunch
