// One directory that all ranks see: rank 0 looks into it for all.
#include "checkpoint/agreement.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/commit/info_text.hpp"
#include "checkpoint/load/group_reader.hpp"
#include "checkpoint/load/part_reader.hpp"
#include "checkpoint/place/place.hpp"

#include <autolaunch/error.hpp>

namespace autolaunch {

namespace {

class CheckpointInOne final : public PublishedCheckpoint {
public:
    CheckpointInOne(Manifest manifest, std::filesystem::path path, const PlaceTools& tools,
                    NodeReaders& readers)
        : PublishedCheckpoint(std::move(manifest)),
          path_(std::move(path)),
          tools_(tools),
          readers_(readers) {}

    void read(std::span<const ReadPart> parts) override {
        if (!readers_)
            readers_ = ranks_of_this_node(tools_.world);
        ReadKeys keys;
        together(tools_.world, [&] { keys = tools_.keys.reading(manifest_); });
        together(tools_.world, [&] {
            read_parts_in_group(tools_.storage, path_, manifest_, parts, *readers_, keys);
        });
    }

    void read_alone(std::span<const ReadPart> parts) override {
        together(tools_.world, [&] {
            if (tools_.world.rank() == 0)
                read_parts(tools_.storage, path_, manifest_, parts, tools_.keys.reading(manifest_));
        });
    }

private:
    std::filesystem::path path_;
    const PlaceTools& tools_;
    NodeReaders& readers_;
};

class OneDirectory final : public CheckpointPlace {
public:
    explicit OneDirectory(PlaceTools tools) : CheckpointPlace(std::move(tools)) {}

    int leader_of(int) const override { return 0; }
    std::string to_leaders(Communicator&, std::string text) const override { return text; }
    std::string from_leader(Communicator& world, const std::string& text) const override {
        return broadcast_text(world, text, 0);
    }

    std::optional<CheckpointInfo> latest(std::int64_t before) override {
        std::optional<CheckpointInfo> found;
        std::string text;
        together(tools_.world, [&] {
            if (tools_.world.rank() != 0)
                return;
            found = newest_anywhere(before);
            text = text_of(found);
        });
        if (found)
            for (const std::string& reason : found->skipped)
                tools_.note("passed over " + reason);
        return info_of(broadcast_text(tools_.world, text, 0));
    }

    std::optional<std::int64_t> newest_step() override {
        try {
            if (const auto newest = find_newest(tools_.storage, tools_.options.directory, INT64_MAX,
                                                tools_.keys.authentication()))
                return newest->step;
        } catch (const Error&) {
        }
        return std::nullopt;
    }

    std::unique_ptr<PublishedCheckpoint> open(const CheckpointInfo& checkpoint) override {
        Communicator& world = tools_.world;
        std::string text;
        together(world, [&] {
            if (world.rank() == 0)
                text = read_manifest(tools_.storage, checkpoint.path, tools_.keys.authentication())
                           .to_text();
        });
        text = broadcast_text(world, text, 0);
        Manifest manifest;
        together(world, [&] {
            manifest = Manifest::parse(text);
            if (manifest.step != checkpoint.step)
                throw Error(ErrorCode::mismatch, checkpoint.path.string() + " is of step " +
                                                     std::to_string(manifest.step) + ", not " +
                                                     std::to_string(checkpoint.step));
        });
        return std::make_unique<CheckpointInOne>(std::move(manifest), checkpoint.path, tools_,
                                                 readers_);
    }

    void tidy(Communicator&, std::int64_t step) override {
        if (!leads())
            return;
        tidy_directory(step, [&](std::optional<std::int64_t> pinned) {
            remove_old(tools_.storage, tools_.options.directory, tools_.options, step, pinned);
        });
    }

private:
    // Of equals the one here: it is nearer.
    std::optional<CheckpointInfo> newest_anywhere(std::int64_t before) {
        std::optional<CheckpointInfo> here;
        std::optional<NotAuthentic> refused;
        try {
            here = find_newest(tools_.storage, tools_.options.directory, before,
                               tools_.keys.authentication());
        } catch (const NotAuthentic& error) {
            refused = error;
        }
        if (!tools_.options.drain.place.empty()) {
            auto drained = newest_drained(before, !here);
            if (drained && (!here || drained->step > here->step))
                here = std::move(drained);
        }
        if (!here && refused)
            throw *refused;
        return here;
    }

    NodeReaders readers_;
};

}  // namespace

std::unique_ptr<CheckpointPlace> make_one_directory(PlaceTools tools) {
    return std::make_unique<OneDirectory>(std::move(tools));
}

}  // namespace autolaunch
