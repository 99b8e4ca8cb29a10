// One directory that all ranks see: rank 0 looks into it for all.
#include "checkpoint/agreement.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/commit/info_text.hpp"
#include "checkpoint/load/group_reader.hpp"
#include "checkpoint/load/part_reader.hpp"
#include "checkpoint/place/place.hpp"

#include <autolaunch/error.hpp>

#include <set>
#include <utility>

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
    // What is damaged here may be whole in a further place. On all ranks.
    void wherever_whole(const std::function<void(const fs::path& path)>& read_from) {
        std::set<fs::path> tried;
        for (;;) {
            tried.insert(path_);
            try {
                together(tools_.world, [&] { missing_is_damage([&] { read_from(path_); }); });
                return;
            } catch (const Error& error) {
                const fs::path copy = is_damage(error) ? same_elsewhere(tried) : fs::path();
                if (copy.empty())
                    throw;
                tell_second_try(tools_, copy, error);
                path_ = copy;
            }
        }
    }

    // Empty where none of the further places that were not tried has it, but maybe another one of
    // this step.
    fs::path same_elsewhere(std::set<fs::path>& tried) {
        std::string found;
        if (tools_.world.rank() == 0)
            found = find_elsewhere(tried);
        return broadcast_text(tools_.world, found, 0);
    }
    std::string find_elsewhere(std::set<fs::path>& tried) const {
        for (const fs::path& copy : drained_copies(tools_, manifest_.step)) {
            if (!tried.insert(copy).second)
                continue;
            try {
                if (read_manifest(tools_.storage, copy, tools_.keys.authentication()) == manifest_)
                    return copy.string();
                tools_.note("not read from there: " + copy.string() + " is another checkpoint");
            } catch (const Error& error) {
                tell_no_copy(tools_, copy, error);
            }
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
        tidy_directory(step, [&](const std::set<std::int64_t>& pinned) {
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
        StepRange newer = range;
        if (const auto& here = places[0].found)
            newer.above = here->step;
        for (Search& further : search_drained(newer, known))
            places.push_back(std::move(further));
        return places;
    }

    NodeReaders readers_;
};

}  // namespace

std::unique_ptr<CheckpointPlace> make_one_directory(PlaceTools tools) {
    return std::make_unique<OneDirectory>(std::move(tools));
}

}  // namespace autolaunch
