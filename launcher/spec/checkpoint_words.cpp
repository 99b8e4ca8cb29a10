#include "spec/checkpoint_words.hpp"

#include "base/text.hpp"
#include "spec/tier_words.hpp"
#include "spec/units.hpp"

#include <string>

namespace autolaunch::launcher {

namespace {

class Judge {
public:
    Judge(const Value& section, std::vector<SpecError>& errors)
        : section_(section), errors_(errors) {}

    void fail(const char* key, const std::string& why) {
        if (const Entry* entry = section_.find(key))
            errors_.push_back(error_at(entry->value.at, std::string("checkpoint.") + key, why));
    }
    bool names(const char* key) const {
        const Entry* entry = section_.find(key);
        return entry != nullptr && !entry->value.is_null();
    }

private:
    const Value& section_;
    std::vector<SpecError>& errors_;
};

void check_further_places(Judge& judge, const CheckpointSpec& checkpoint) {
    const bool has_tiers = !checkpoint.tiers.empty();
    if (checkpoint.drain.empty() && judge.names("drain_keep"))
        judge.fail("drain_keep", has_tiers ? "each entry of checkpoint.tiers has its own keep"
                                           : "there is no checkpoint.drain that it is for");
    if (!checkpoint.drain.empty() || has_tiers || judge.names("tiers"))
        return;
    if (judge.names("drain_wait"))
        judge.fail("drain_wait", "there is no checkpoint.drain that it is for");
    if (checkpoint.node_local.value_or(false))
        judge.fail("node_local",
                   "a node that is lost takes its files along: name a second place with "
                   "checkpoint.drain, a directory that all nodes share or s3://BUCKET/PREFIX");
}

void check_drain(Judge& judge, const CheckpointSpec& checkpoint) {
    check_further_places(judge, checkpoint);
    const std::string& place = checkpoint.drain;
    if (place.empty())
        return;
    if (judge.names("tiers"))
        judge.fail("tiers", "checkpoint.drain says where checkpoints go, too: name " + place +
                                " in checkpoint.tiers and remove checkpoint.drain");
    if (const std::string why = why_no_place(place); !why.empty())
        judge.fail("drain", "expected " + why);
    else if (!checkpoint.checkpoint_dir.empty() && is_same_place(place, checkpoint.checkpoint_dir))
        judge.fail("drain", "is checkpoint_dir itself; name another place");
}

void check_tiers(Judge& judge, const CheckpointSpec& checkpoint) {
    for (const TierSpec& tier : checkpoint.tiers)
        if (!checkpoint.checkpoint_dir.empty() &&
            is_same_place(tier.place, checkpoint.checkpoint_dir))
            judge.fail("tiers", tier.place + " is checkpoint_dir itself; name another place");
}

}  // namespace

std::optional<SaveInterval> save_interval_from(std::string_view text) {
    if (text == "optimal")
        return SaveInterval{.optimal = true};
    long long steps = 0;
    if (parse_integer(text, steps))
        return steps > 0 ? std::optional(SaveInterval{.steps = steps}) : std::nullopt;
    const auto time = duration_from(text);
    if (!time || time->count() == 0)
        return std::nullopt;
    return SaveInterval{.time = time};
}

void check_checkpoint(const Value& root, const CheckpointSpec& checkpoint,
                      std::vector<SpecError>& errors) {
    const Entry* section = root.find("checkpoint");
    if (section == nullptr || !section->value.is_mapping())
        return;
    Judge judge(section->value, errors);
    const auto interval = save_interval_from(checkpoint.every);
    if (!checkpoint.every.empty() && !interval)
        judge.fail("every", "expected steps (500), a time (10m, 1h) or optimal");
    else if (interval && interval->steps && checkpoint.every_steps)
        judge.fail("every", "every_steps says it, too; remove one of the two");
    if (const std::string why = why_no_place(checkpoint.restore_from); !why.empty())
        judge.fail("restore_from", "expected " + why);
    check_drain(judge, checkpoint);
    check_tiers(judge, checkpoint);
}

}  // namespace autolaunch::launcher
