#include "spec/tier_words.hpp"

#include "base/text.hpp"
#include "spec/checkpoint_words.hpp"
#include "spec/mapping_reader.hpp"
#include "spec/units.hpp"

#include <climits>
#include <filesystem>
#include <string_view>

namespace autolaunch::launcher {

namespace {

constexpr std::string_view kBucket = "s3://";
constexpr std::size_t kMostTiers = 16;
const std::vector<std::string> kTierKeys = {"place",      "every",     "keep",
                                            "keep_every", "keep_best", "bandwidth"};

class TierReader : MappingReader {
public:
    TierReader(std::string path, std::vector<SpecError>& errors)
        : MappingReader(std::move(path), errors) {}

    bool read(const Value& value, TierSpec& tier) {
        if (!value.is_mapping()) {
            complain(
                value.at, path_,
                "expected {place: /shared/run7, every: 30m, keep: 3}; found " + describe(value));
            return false;
        }
        for (const Entry& entry : value.entries)
            read_key(entry, tier);
        if (value.find("place") == nullptr)
            complain(value.at, path_, "says not place: a directory or s3://BUCKET/PREFIX");
        return good_;
    }

private:
    void read_key(const Entry& entry, TierSpec& tier) {
        const std::string& text = entry.value.text;
        if (entry.key == "place") {
            if (!is_text(entry.value))
                return expected(entry, "a directory or s3://BUCKET/PREFIX");
            if (const std::string why = why_no_place(text); !why.empty())
                return expected(entry, why);
            tier.place = text;
        } else if (entry.key == "every") {
            const auto interval = is_text(entry.value) ? save_interval_from(text) : std::nullopt;
            if (!interval || interval->optimal)
                return expected(entry, "steps (500) or a time (30m, 2h)");
            tier.every = text;
        } else if (entry.key == "bandwidth") {
            const auto bytes = is_text(entry.value) ? bytes_from(text) : std::nullopt;
            if (!bytes || *bytes == 0)
                return expected(entry, "bytes a second, such as 500MB");
            tier.bandwidth = bytes;
        } else {
            read_number(entry, tier);
        }
    }

    void read_number(const Entry& entry, TierSpec& tier) {
        if (entry.key == "keep")
            take(entry, INT_MAX, tier.keep);
        else if (entry.key == "keep_best")
            take(entry, INT_MAX, tier.keep_best);
        else if (entry.key == "keep_every")
            take(entry, LLONG_MAX, tier.keep_every);
        else
            unknown(entry, kTierKeys);
    }

    template <class Number>
    void take(const Entry& entry, long long most, std::optional<Number>& number) {
        long long value = 0;
        if (!is_text(entry.value) || !parse_integer(entry.value.text, value) || value < 1 ||
            value > most)
            return expected(entry, "a whole number >= 1");
        number = static_cast<Number>(value);
    }
};

class StripeReader : MappingReader {
public:
    StripeReader(std::string path, std::vector<SpecError>& errors)
        : MappingReader(std::move(path), errors) {}

    void read(const Value& value, StripeSpec& stripe) {
        for (const Entry& entry : value.entries)
            read_key(entry, stripe);
        if (good_ && stripe.count == 0 && stripe.bytes == 0)
            complain(value.at, path_, "says neither count nor size");
    }

private:
    void read_key(const Entry& entry, StripeSpec& stripe) {
        const std::string& text = entry.value.text;
        if (entry.key == "count") {
            long long count = 0;
            if (is_text(entry.value) && text == "all")
                stripe.count = -1;
            else if (is_text(entry.value) && parse_integer(text, count) && count >= 1 &&
                     count <= kMostStripes)
                stripe.count = static_cast<int>(count);
            else
                expected(entry, "a number from 1 to 2000, or all");
        } else if (entry.key == "size") {
            const auto bytes = is_text(entry.value) ? bytes_from(text) : std::nullopt;
            // What both take: Lustre multiples of it, BeeGFS powers of two above it.
            if (!bytes || *bytes < kLeastStripe || (*bytes & (*bytes - 1)) != 0 ||
                *bytes > kLargestStripe)
                return expected(entry, "a power of two from 64KiB to 2GiB, such as 4MiB");
            stripe.bytes = *bytes;
        } else {
            unknown(entry, {"count", "size"});
        }
    }

    static constexpr long long kMostStripes = 2000;
    static constexpr std::int64_t kLeastStripe = 64 << 10, kLargestStripe = std::int64_t{2} << 30;
};

}  // namespace

bool read_stripe(const Value& value, const std::string& path, StripeSpec& stripe,
                 std::vector<SpecError>& errors) {
    stripe = {};
    if (value.is_scalar()) {
        stripe.automatic = value.text == "auto";
        return stripe.automatic;
    }
    if (!value.is_mapping())
        return false;
    StripeReader(path, errors).read(value, stripe);
    return true;
}

std::string why_no_place(const std::string& place) {
    if (place.find("://") != place.npos && !place.starts_with(kBucket))
        return "a directory or s3://BUCKET/PREFIX";
    if (place.starts_with(kBucket) &&
        (place.size() == kBucket.size() || place[kBucket.size()] == '/'))
        return "s3://BUCKET/PREFIX";
    return {};
}

bool is_same_place(const std::string& one, const std::string& other) {
    return std::filesystem::path(one).lexically_normal() / "" ==
           std::filesystem::path(other).lexically_normal() / "";
}

bool read_tiers(const Value& value, const std::string& path, std::vector<TierSpec>& tiers,
                std::vector<SpecError>& errors) {
    if (!value.is_sequence())
        return false;
    tiers.clear();
    for (std::size_t i = 0; i < value.items.size(); ++i) {
        const std::string its = path + '[' + std::to_string(i) + ']';
        TierSpec tier;
        if (!TierReader(its, errors).read(value.items[i], tier))
            continue;
        for (const TierSpec& other : tiers)
            if (is_same_place(tier.place, other.place))
                errors.push_back(error_at(value.items[i].at, its + ".place",
                                          tier.place + " is in the list already"));
        tiers.push_back(std::move(tier));
    }
    if (tiers.size() > kMostTiers)
        errors.push_back(
            error_at(value.at, path, "has more than " + std::to_string(kMostTiers) + " entries"));
    return true;
}

}  // namespace autolaunch::launcher
