// One directory that all ranks see: rank 0 looks into it for all.
#include "checkpoint/agreement.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/commit/info_text.hpp"
#include "checkpoint/load/group_reader.hpp"
#include "checkpoint/load/part_reader.hpp"
#include "checkpoint/place/place.hpp"

#include <autolaunch/error.hpp>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

class CheckpointInOne final : public PublishedCheckpoint {
public:
    CheckpointInOne(Manifest manifest, fs::path path, const PlaceTools& tools, NodeReaders& readers)
        : PublishedCheckpoint(std::move(manifest)),
          path_(std::move(path)),
          tools_(tools),
          readers_(readers) {}

    void read(std::span<const ReadPart> parts) override {
        if (!readers_)
            readers_ = ranks_of_this_node(tools_.world);
        ReadKeys keys;
        together(tools_.world, [&] { keys = tools_.keys.reading(manifest_); });
        wherever_whole([&](const fs::path& path) {
            read_parts_in_group(tools_.storage, path, manifest_, parts, *readers_, keys);
        });
    }

    void read_alone(std::span<const ReadPart> parts) override {
        wherever_whole([&](const fs::path& path) {
            if (tools_.world.rank() == 0)
                read_parts(tools_.storage, path, manifest_, parts, tools_.keys.reading(manifest_));
        });
    }

    fs::path path() const override { return path_; }

private:
    // What is damaged here may be whole in the second place. On all ranks.
    void wherever_whole(const std::function<void(const fs::path& path)>& read_from) {
        const auto from = [&](const fs::path& path) {
            together(tools_.world, [&] { missing_is_damage([&] { read_from(path); }); });
        };
        try {
            from(path_);
        } catch (const Error& error) {
            const fs::path copy = is_damage(error) ? same_in_second_place() : fs::path();
            if (copy.empty())
                throw;
            tell_second_try(tools_, copy, error);
            from(copy);
            path_ = copy;
        }
    }

    // Empty where it has none, or another one of this step.
    fs::path same_in_second_place() {
        std::string found;
        if (tools_.world.rank() == 0)
            found = find_in_second_place();
        return broadcast_text(tools_.world, found, 0);
    }
    std::string find_in_second_place() const {
        const fs::path copy = drained_copy(tools_, manifest_.step);
        if (tools_.options.drain.place.empty() || copy == path_)
            return {};
        try {
            if (read_manifest(tools_.storage, copy, tools_.keys.authentication()) == manifest_)
                return copy.string();
            tools_.note("not read from there: " + copy.string() + " is another checkpoint");
        } catch (const Error& error) {
            tell_no_copy(tools_, copy, error);
        }
        return {};
    }

    fs::path path_;
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

    std::optional<CheckpointInfo> latest(const StepRange& range,
                                         const KnownCheckpoints& known) override {
        std::string text;
        together(tools_.world, [&] {
            if (tools_.world.rank() == 0)
                text = text_of(choose(look_everywhere(range, known), known));
        });
        return info_of(broadcast_text(tools_.world, text, 0));
    }

    std::optional<std::int64_t> newest_step() override {
        try {
            if (const auto newest = search_newest(tools_.storage, tools_.options.directory, {},
                                                  tools_.keys.authentication())
                                        .found)
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
                text = missing_is_damage([&] {
                           return read_manifest(tools_.storage, checkpoint.path,
                                                tools_.keys.authentication());
                       }).to_text();
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
            return remove_old(tools_.storage, tools_.options.directory, tools_.options, step,
                              pinned, tools_.deleted);
        });
    }

private:
    // Of equals the one here: it is nearer.
    std::vector<Search> look_everywhere(const StepRange& range, const KnownCheckpoints& known) {
        std::vector<Search> places = {search_newest(tools_.storage, tools_.options.directory,
                                                    known.left_here(range),
                                                    tools_.keys.authentication())};
        const auto& here = places[0].found;
        StepRange newer = known.left_there(range);
        if (here)
            newer.above = here->step;
        if (!tools_.options.drain.place.empty())
            places.push_back(search_drained(newer));
        return places;
    }

    NodeReaders readers_;
};

}  // namespace

std::unique_ptr<CheckpointPlace> make_one_directory(PlaceTools tools) {
    return std::make_unique<OneDirectory>(std::move(tools));
}

}  // namespace autolaunch
