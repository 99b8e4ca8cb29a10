#include "spec/checkpoint_words.hpp"

#include "base/text.hpp"
#include "spec/units.hpp"

#include <filesystem>
#include <string>

namespace autolaunch::launcher {

namespace {

constexpr std::string_view kBucket = "s3://";

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

bool is_bucket_path(const std::string& place) {
    return place.size() > kBucket.size() && place[kBucket.size()] != '/';
}

void check_drain(Judge& judge, const CheckpointSpec& checkpoint) {
    const std::string& place = checkpoint.drain;
    if (place.empty()) {
        for (const char* key : {"drain_keep", "drain_wait"})
            if (judge.names(key))
                judge.fail(key, "there is no checkpoint.drain that it is for");
        if (checkpoint.node_local.value_or(false))
            judge.fail("node_local",
                       "a node that is lost takes its files along: name a second place with "
                       "checkpoint.drain, a directory that all nodes share or s3://BUCKET/PREFIX");
        return;
    }
    if (place.find("://") != place.npos && !place.starts_with(kBucket))
        judge.fail("drain", "expected a directory or s3://BUCKET/PREFIX");
    else if (place.starts_with(kBucket) && !is_bucket_path(place))
        judge.fail("drain", "expected s3://BUCKET/PREFIX");
    else if (!checkpoint.checkpoint_dir.empty() &&
             std::filesystem::path(place).lexically_normal() / "" ==
                 std::filesystem::path(checkpoint.checkpoint_dir).lexically_normal() / "")
        judge.fail("drain", "is checkpoint_dir itself; name another place");
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
    check_drain(judge, checkpoint);
}

}  // namespace autolaunch::launcher
