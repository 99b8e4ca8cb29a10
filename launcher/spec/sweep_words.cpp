#include "spec/sweep_words.hpp"

#include "base/text.hpp"
#include "spec/scalar.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace autolaunch::launcher {

namespace {

constexpr double kLargestWhole = 9'007'199'254'740'992.0;  // 2^53: doubles hold each below it

constexpr std::array<std::pair<std::string_view, SweepMetric>, 3> kMetrics = {
    {{"loss", SweepMetric::loss},
     {"seconds", SweepMetric::seconds},
     {"tokens_per_second", SweepMetric::tokens_per_second}}};

/// A dotted path of names, as overrides have them.
bool is_path(const std::string& key) {
    const auto names = split(key, '.');
    return std::all_of(names.begin(), names.end(), [](const std::string& name) {
        return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
            return c < 128 && (std::isalnum(c) != 0 || c == '_' || c == '-');
        });
    });
}

/// All elements are one array with one request, and their records lie in one folder.
std::string why_no_axis(const std::string& key) {
    const std::string section = key.substr(0, key.find('.'));
    for (const std::string_view one : {"sweep", "pipeline", "include"})
        if (section == one)
            return "cannot be swept";
    const bool is_asked_for = section == "slurm_config" || section == "kubernetes" ||
                              key.starts_with("resource_management.nodes") ||
                              key == "resource_management.gpus_per_node" ||
                              key == "resource_management.cpu_cores_per_gpu" ||
                              key == "resource_management" || key.starts_with("monitoring");
    return is_asked_for ? "is the same for all elements: they are one array, with one request and "
                          "one folder of runs"
                        : "";
}

class SweepReader {
public:
    SweepReader(SweepSpec& sweep, std::vector<SpecError>& errors)
        : sweep_(sweep), errors_(errors) {}

    void read(const Value& section) {
        static const std::vector<std::string> kKeys = {
            "grid", "list", "random", "metric", "mode", "early_stop", "element", "of", "values"};
        const std::size_t before = errors_.size();
        each(section, "sweep", kKeys, [this](const Entry& entry) { take(entry); });
        if (errors_.size() == before)
            check_whole(section);
    }

private:
    void fail(const Origin& at, const std::string& key, std::string message) {
        errors_.push_back(error_at(at, key, std::move(message)));
    }

    /// Of a mapping, all entries whose key is known.
    template <typename Take>
    void each(const Value& value, const std::string& path, const std::vector<std::string>& keys,
              const Take& take_one) {
        if (!value.is_mapping())
            return fail(
                value.at, path,
                "expected a mapping with " + join(keys, ", ") + "; found " + describe(value));
        for (const Entry& entry : value.entries) {
            if (std::find(keys.begin(), keys.end(), entry.key) != keys.end()) {
                take_one(entry);
                continue;
            }
            const std::string near = nearest(entry.key, keys);
            fail(entry.key_at, path + '.' + entry.key,
                 "unknown key; " + (near.empty() ? path + " has " + join(keys, ", ")
                                                 : "did you mean \"" + near + "\"?"));
        }
    }

    void take(const Entry& entry) {
        const Value& value = entry.value;
        if (value.is_null())
            fail(entry.key_at, "sweep." + entry.key, "has no value");
        else if (entry.key == "grid")
            read_grid(value);
        else if (entry.key == "list")
            read_list(value);
        else if (entry.key == "random")
            read_random(value);
        else if (entry.key == "metric")
            sweep_.goal.metric = metric_of(value, "sweep.metric");
        else if (entry.key == "mode")
            sweep_.goal.maximise = is_max(value, "sweep.mode");
        else if (entry.key == "early_stop")
            stop_ = &value;
        else if (entry.key == "element")
            sweep_.element =
                static_cast<int>(whole(value, "sweep.element", 0, std::numeric_limits<int>::max()));
        else if (entry.key == "of")
            sweep_.of = text_of(value, "sweep.of");
        else
            sweep_.values = settings_of(value, "sweep.values");
    }

    /// After all keys: of the metric one key may say what the other says, too.
    void check_whole(const Value& section) {
        if (stop_ != nullptr)
            read_early_stop(*stop_, section);
        sweep_.early_stop.goal = sweep_.goal;
        const bool makes_some = section.find("grid") != nullptr ||
                                section.find("list") != nullptr ||
                                section.find("random") != nullptr;
        if (makes_some != sweep_.of.empty())
            return fail(section.at, "sweep",
                        makes_some ? "`of` is of one element alone, and grid, list and random "
                                     "make elements"
                                   : "makes no element: give a grid, a list or random samples");
        const std::size_t count = count_elements(sweep_);
        if (count > kMostElements)
            fail(section.at, "sweep", "makes more than 10000 elements, the most there may be");
        else if (makes_some && sweep_.element && static_cast<std::size_t>(*sweep_.element) >= count)
            fail(section.find("element")->value.at, "sweep.element",
                 "there are " + std::to_string(count) + " elements, 0 to " +
                     std::to_string(count - 1));
    }

    std::string text_of(const Value& value, const std::string& path) {
        if (value.is_scalar() && !value.text.empty())
            return value.text;
        fail(value.at, path, "expected text; found " + describe(value));
        return {};
    }
    std::optional<double> number_in(const Value& value) const {
        if (!value.is_scalar() || !(value.plain || value.interpolated))
            return std::nullopt;
        const Scalar found = resolve_scalar(value.text);
        if (const auto* whole_number = std::get_if<std::int64_t>(&found))
            return static_cast<double>(*whole_number);
        const auto* number = std::get_if<double>(&found);
        return number != nullptr && std::isfinite(*number) ? std::optional(*number) : std::nullopt;
    }
    std::int64_t whole(const Value& value, const std::string& path, std::int64_t least,
                       std::int64_t most) {
        const auto number = number_in(value);
        if (number && *number == std::floor(*number) && *number >= static_cast<double>(least) &&
            *number <= static_cast<double>(most))
            return static_cast<std::int64_t>(*number);
        fail(value.at, path,
             "expected a whole number from " + std::to_string(least) + " to " +
                 std::to_string(most) + "; found " + describe(value));
        return least;
    }
    SweepMetric metric_of(const Value& value, const std::string& path) {
        for (const auto& [word, metric] : kMetrics)
            if (value.is_scalar() && value.text == word)
                return metric;
        fail(value.at, path,
             "expected loss, seconds or tokens_per_second, which step reports have; found " +
                 describe(value));
        return SweepMetric::loss;
    }
    bool is_max(const Value& value, const std::string& path) {
        if (!value.is_scalar() || (value.text != "min" && value.text != "max"))
            fail(value.at, path, "expected min or max; found " + describe(value));
        return value.text == "max";
    }

    bool check_key(const Entry& entry, const std::string& path) {
        const std::string why =
            is_path(entry.key) ? why_no_axis(entry.key)
                               : "is no key of a spec; write its whole path, as in optimizer.lr";
        if (!why.empty())
            fail(entry.key_at, path + '.' + entry.key, why);
        return why.empty();
    }
    SweepElement settings_of(const Value& value, const std::string& path) {
        SweepElement element;
        if (!value.is_mapping())
            fail(value.at, path,
                 "expected a mapping of keys to values, as in {optimizer.lr: 1e-3}; found " +
                     describe(value));
        for (const Entry& entry : value.entries)
            if (check_key(entry, path))
                element.push_back({entry.key, entry.key_at, entry.value});
        if (value.is_mapping() && value.entries.empty())
            fail(value.at, path, "sets nothing");
        return element;
    }
    void read_grid(const Value& value) {
        if (!value.is_mapping() || value.entries.empty())
            return fail(value.at, "sweep.grid",
                        "expected a mapping of keys to lists of values, as in {optimizer.lr: "
                        "[1e-3, 1e-4]}; found " +
                            (value.is_mapping() ? "none" : describe(value)));
        for (const Entry& entry : value.entries) {
            if (!check_key(entry, "sweep.grid"))
                continue;
            if (!entry.value.is_sequence() || entry.value.items.empty())
                fail(entry.value.at, "sweep.grid." + entry.key,
                     "expected a list of values; found " +
                         (entry.value.is_sequence() ? "none" : describe(entry.value)) +
                         (entry.value.is_mapping()
                              ? " (a key within it is written with a dot, " + entry.key + ".KEY)"
                              : ""));
            sweep_.grid.push_back({entry.key, entry.key_at, entry.value.items});
        }
    }
    void read_list(const Value& value) {
        if (!value.is_sequence() || value.items.empty())
            return fail(value.at, "sweep.list",
                        "expected a list with a mapping for each element; found " +
                            (value.is_sequence() ? "none" : describe(value)));
        for (std::size_t i = 0; i < value.items.size(); ++i)
            sweep_.list.push_back(
                settings_of(value.items[i], "sweep.list[" + std::to_string(i) + ']'));
    }
    void read_random(const Value& value) {
        const std::size_t before = errors_.size();
        each(value, "sweep.random", {"samples", "seed", "ranges"}, [this](const Entry& entry) {
            if (entry.key == "samples")
                sweep_.samples = whole(entry.value, "sweep.random.samples", 1,
                                       static_cast<std::int64_t>(kMostElements));
            else if (entry.key == "seed")
                sweep_.seed = static_cast<std::uint64_t>(whole(
                    entry.value, "sweep.random.seed", 0, static_cast<std::int64_t>(kLargestWhole)));
            else
                read_ranges(entry.value);
        });
        if (errors_.size() == before && (sweep_.samples == 0 || sweep_.ranges.empty()))
            fail(value.at, "sweep.random",
                 sweep_.samples == 0 ? "needs samples, how many there are to be"
                                     : "needs ranges, as in {optimizer.lr: {log: [1e-5, 1e-2]}}");
    }
    void read_ranges(const Value& value) {
        if (!value.is_mapping())
            return fail(value.at, "sweep.random.ranges",
                        "expected a mapping of keys to ranges; found " + describe(value));
        for (const Entry& entry : value.entries)
            if (check_key(entry, "sweep.random.ranges"))
                read_range(entry);
    }
    void read_range(const Entry& entry) {
        static const std::array<std::pair<std::string_view, SweepRange::Kind>, 4> kKinds = {
            {{"uniform", SweepRange::Kind::uniform},
             {"log", SweepRange::Kind::log},
             {"integer", SweepRange::Kind::integer},
             {"choice", SweepRange::Kind::choice}}};
        const std::string path = "sweep.random.ranges." + entry.key;
        const Value& value = entry.value;
        const auto kind = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& one) {
            return value.is_mapping() && value.entries.size() == 1 &&
                   value.entries[0].key == one.first;
        });
        if (kind == kKinds.end())
            return fail(value.at, path,
                        "expected one of {uniform: [LOW, HIGH]}, {log: [LOW, HIGH]}, {integer: "
                        "[LOW, HIGH]} and {choice: [A, B, …]}; found " +
                            describe(value));
        SweepRange range{.key = entry.key, .key_at = entry.key_at, .kind = kind->second};
        const Value& ends = value.entries[0].value;
        if (range.kind == SweepRange::Kind::choice) {
            range.choices = ends.items;
            if (!ends.is_sequence() || ends.items.empty())
                return fail(ends.at, path, "expected a list of values; found " + describe(ends));
        } else if (!read_ends(ends, path, range)) {
            return;
        }
        sweep_.ranges.push_back(std::move(range));
    }
    bool read_ends(const Value& ends, const std::string& path, SweepRange& range) {
        const bool two = ends.is_sequence() && ends.items.size() == 2;
        const auto low = two ? number_in(ends.items[0]) : std::nullopt;
        const auto high = two ? number_in(ends.items[1]) : std::nullopt;
        if (!low || !high) {
            fail(ends.at, path, "expected two numbers, [LOW, HIGH]; found " + describe(ends));
            return false;
        }
        range.low = *low;
        range.high = *high;
        const bool fractions = *low != std::floor(*low) || *high != std::floor(*high) ||
                               std::max(-*low, *high) > kLargestWhole;
        std::string why;
        if (*low >= *high)
            why = "is backwards: its lower end comes first, and " + ends.items[0].text +
                  " is not below " + ends.items[1].text;
        else if (range.kind == SweepRange::Kind::log && *low <= 0)
            why = "is logarithmic, and begins above 0";
        else if (range.kind == SweepRange::Kind::integer && fractions)
            why = "expected two whole numbers";
        if (!why.empty())
            fail(ends.at, path, why);
        return why.empty();
    }
    void read_early_stop(const Value& value, const Value& section) {
        EarlyStopSpec& stop = sweep_.early_stop;
        const SweepGoal before = sweep_.goal;
        each(value, "sweep.early_stop",
             {"rule", "metric", "mode", "min_steps", "every", "eta", "min_elements"},
             [&](const Entry& entry) { take_stop(entry, stop); });
        const bool differs =
            (section.find("metric") != nullptr && before.metric != sweep_.goal.metric) ||
            (section.find("mode") != nullptr && before.maximise != sweep_.goal.maximise);
        if (differs)
            fail(value.at, "sweep.early_stop",
                 "has another metric or mode than the sweep, whose elements are judged by one");
        using Rule = EarlyStopSpec::Rule;
        if (value.is_mapping() && value.find("rule") == nullptr)
            fail(value.at, "sweep.early_stop", "needs a rule: median or asha");
        for (const auto& [key, rule] : {std::pair<const char*, Rule>{"every", Rule::median},
                                        {"min_elements", Rule::median},
                                        {"eta", Rule::asha}})
            if (const Entry* entry = value.find(key); entry != nullptr && stop.rule != rule)
                fail(entry->key_at, std::string("sweep.early_stop.") + key,
                     std::string("is of the rule ") + (rule == Rule::asha ? "asha" : "median") +
                         " alone");
    }
    void take_stop(const Entry& entry, EarlyStopSpec& stop) {
        const std::string path = "sweep.early_stop." + entry.key;
        const Value& value = entry.value;
        constexpr std::int64_t kMostSteps = 1'000'000'000'000;
        if (entry.key == "rule") {
            const std::string word = value.is_scalar() ? value.text : "";
            stop.rule = word == "median" ? EarlyStopSpec::Rule::median : EarlyStopSpec::Rule::asha;
            if (word != "median" && word != "asha")
                fail(value.at, path, "expected median or asha; found " + describe(value));
        } else if (entry.key == "metric") {
            sweep_.goal.metric = metric_of(value, path);
        } else if (entry.key == "mode") {
            sweep_.goal.maximise = is_max(value, path);
        } else if (entry.key == "min_steps") {
            stop.min_steps = whole(value, path, 1, kMostSteps);
        } else if (entry.key == "every") {
            stop.every = whole(value, path, 1, kMostSteps);
        } else if (entry.key == "eta") {
            stop.eta = static_cast<int>(whole(value, path, 2, 1000));
        } else {
            stop.min_elements = static_cast<int>(whole(value, path, 1, 10'000));
        }
    }

    SweepSpec& sweep_;
    std::vector<SpecError>& errors_;
    const Value* stop_ = nullptr;
};

}  // namespace

std::string name_of(SweepMetric metric) {
    for (const auto& [word, one] : kMetrics)
        if (one == metric)
            return std::string(word);
    return {};
}

void read_sweep(const Value& section, SweepSpec& sweep, std::vector<SpecError>& errors) {
    sweep = {};
    if (section.is_null())
        return;
    sweep.given = true;
    sweep.at = section.at;
    SweepReader(sweep, errors).read(section);
}

std::size_t count_elements(const SweepSpec& sweep) {
    std::size_t grid = sweep.grid.empty() ? 0 : 1;
    for (const SweepAxis& axis : sweep.grid)
        grid = std::min(grid * axis.values.size(), kMostElements + 1);
    return std::min(grid + sweep.list.size() + static_cast<std::size_t>(sweep.samples),
                    kMostElements + 1);
}

}  // namespace autolaunch::launcher
