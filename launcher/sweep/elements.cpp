#include "sweep/elements.hpp"

#include "base/text.hpp"
#include "spec/override.hpp"
#include "spec/scalar.hpp"
#include "spec/schema.hpp"
#include "spec/sweep_words.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostErrors = 1000;

Value scalar(std::string text, const Origin& at) {
    Value value;
    value.kind = Value::Kind::scalar;
    value.plain = true;
    value.text = std::move(text);
    value.at = at;
    return value;
}

void add_grid(const SweepSpec& sweep, std::vector<SweepElement>& elements) {
    std::vector<SweepElement> made(sweep.grid.empty() ? 0 : 1);
    for (const SweepAxis& axis : sweep.grid) {
        std::vector<SweepElement> longer;
        for (const SweepElement& before : made)
            for (const Value& value : axis.values) {
                longer.push_back(before);
                longer.back().push_back({axis.key, axis.key_at, value});
            }
        made = std::move(longer);
    }
    std::move(made.begin(), made.end(), std::back_inserter(elements));
}

/// Distributions of the standard library differ between libraries; its generators do not.
class Draw {
public:
    explicit Draw(std::uint64_t seed) : generator_(seed) {}

    Value operator()(const SweepRange& range) {
        const double share = static_cast<double>(generator_() >> 11U) * 0x1p-53;  // [0, 1)
        switch (range.kind) {
            case SweepRange::Kind::uniform:
                return number(range.low + share * (range.high - range.low), range);
            case SweepRange::Kind::log:
                return number(std::exp(std::log(range.low) +
                                       share * (std::log(range.high) - std::log(range.low))),
                              range);
            case SweepRange::Kind::integer:
                return scalar(
                    fmt::format(
                        "{:.0f}",
                        std::min(range.high,
                                 range.low + std::floor(share * (range.high - range.low + 1)))),
                    range.key_at);
            case SweepRange::Kind::choice:
                break;
        }
        const auto at = static_cast<std::size_t>(share * static_cast<double>(range.choices.size()));
        return range.choices[std::min(at, range.choices.size() - 1)];
    }

private:
    /// Six digits, which a person can type again; inside the range nevertheless.
    static Value number(double drawn, const SweepRange& range) {
        double rounded = 0;
        std::string text = fmt::format("{:.6g}", drawn);
        if (!parse_double(text, rounded) || rounded < range.low || rounded > range.high)
            text = fmt::format("{}", std::clamp(drawn, range.low, range.high));
        return scalar(std::move(text), range.key_at);
    }
    static bool parse_double(const std::string& text, double& number) {
        const Scalar found = resolve_scalar(text);
        if (const auto* whole = std::get_if<std::int64_t>(&found))
            number = static_cast<double>(*whole);
        else if (const auto* fraction = std::get_if<double>(&found))
            number = *fraction;
        else
            return false;
        return true;
    }

    std::mt19937_64 generator_;
};

Value mapping(const Origin& at) {
    Value value;
    value.kind = Value::Kind::mapping;
    value.at = at;
    return value;
}

void add(Value& to, const std::string& key, Value value) {
    const Origin at = value.at;
    to.entries.push_back({key, at, std::move(value)});
}

Value goal_of(const SweepGoal& goal, Value to) {
    const Origin at = to.at;
    add(to, "metric", scalar(name_of(goal.metric), at));
    add(to, "mode", scalar(goal.maximise ? "max" : "min", at));
    return to;
}

Value early_stop_of(const EarlyStopSpec& stop, const Origin& at) {
    const bool median = stop.rule == EarlyStopSpec::Rule::median;
    Value value = mapping(at);
    add(value, "rule", scalar(median ? "median" : "asha", at));
    value = goal_of(stop.goal, std::move(value));
    add(value, "min_steps", scalar(std::to_string(stop.min_steps), at));
    if (median) {
        add(value, "every", scalar(std::to_string(stop.every), at));
        add(value, "min_elements", scalar(std::to_string(stop.min_elements), at));
    } else {
        add(value, "eta", scalar(std::to_string(stop.eta), at));
    }
    return value;
}

}  // namespace

std::vector<SweepElement> sweep_elements(const SweepSpec& sweep) {
    std::vector<SweepElement> elements;
    if (count_elements(sweep) > kMostElements)
        return elements;
    add_grid(sweep, elements);
    elements.insert(elements.end(), sweep.list.begin(), sweep.list.end());
    Draw draw(sweep.seed);
    for (std::int64_t i = 0; i < sweep.samples; ++i) {
        SweepElement sample;
        for (const SweepRange& range : sweep.ranges)
            sample.push_back({range.key, range.key_at, draw(range)});
        elements.push_back(std::move(sample));
    }
    return elements;
}

void check_elements(const SpecResult& read, const std::vector<SweepElement>& elements,
                    std::vector<SpecError>& errors) {
    std::set<std::string> said;
    for (const SpecError& error : errors)
        said.insert(to_string(error));
    for (const SweepElement& element : elements) {
        for (SpecError& error : with_settings(read, element, {}).errors)
            if (said.insert(to_string(error)).second)
                errors.push_back(std::move(error));
        if (errors.size() > kMostErrors)
            return;
    }
}

std::vector<std::string> new_keys(const SpecResult& read) {
    std::set<std::string> keys;
    const SweepSpec& sweep = read.sweep;
    for (const SweepAxis& axis : sweep.grid)
        keys.insert(axis.key);
    for (const SweepElement& element : sweep.list)
        for (const SweepSetting& setting : element)
            keys.insert(setting.key);
    for (const SweepRange& range : sweep.ranges)
        keys.insert(range.key);
    std::erase_if(keys, [&](const std::string& key) {
        const auto names = split(key, '.');
        const Section* section = find_section(names[0]);
        const bool is_ours = section != nullptr && !section->free_form && names.size() > 1 &&
                             section->find(names[1]) != nullptr &&
                             section->find(names[1])->form != Form::free_form;
        const Value* value = &read.root;
        for (const std::string& name : names) {
            const Entry* next = value->find(name);
            long long index = 0;
            if (next != nullptr)
                value = &next->value;
            else if (value->is_sequence() && parse_integer(name, index) && index >= 0 &&
                     index < static_cast<long long>(value->items.size()))
                value = &value->items[static_cast<std::size_t>(index)];
            else
                return is_ours;
        }
        return true;
    });
    return {keys.begin(), keys.end()};
}

std::string value_text(const Value& value) {
    if (value.secret)
        return std::string(kMasked);
    if (value.is_scalar())
        return value.text;
    std::vector<SpecError> errors;
    return to_json(value, "", errors).dump();
}

std::string describe(const SweepElement& element) {
    std::vector<std::string> words;
    words.reserve(element.size());
    for (const SweepSetting& setting : element)
        words.push_back(setting.key + '=' + value_text(setting.value));
    return join(words, " ");
}

std::optional<int> element_of_start(const SweepSpec& sweep,
                                    const std::map<std::string, std::string>& environment) {
    if (sweep.element)
        return sweep.element;
    const auto task = environment.find("SLURM_ARRAY_TASK_ID");
    long long number = 0;
    if (task == environment.end() || !parse_integer(task->second, number) || number < 0 ||
        number > 4'000'000)
        return std::nullopt;
    return static_cast<int>(number);
}

std::string stored_element(int element) { return fmt::format("element-{}.yaml", element); }

bool is_stored_element(const std::string& file_name) {
    constexpr std::string_view kBegin = "element-", kEnd = ".yaml";
    return file_name.size() > kBegin.size() + kEnd.size() && file_name.starts_with(kBegin) &&
           file_name.ends_with(kEnd) &&
           file_name.find_first_not_of("0123456789", kBegin.size()) ==
               file_name.size() - kEnd.size();
}

Value stored_tree(Value element, const SweepSpec& sweep, int number, const std::string& folder,
                  const SweepElement& values) {
    const Origin& at = sweep.at;
    Value part = mapping(at);
    Value of = scalar(folder, at);
    of.plain = false;
    add(part, "of", std::move(of));
    add(part, "element", scalar(std::to_string(number), at));
    Value settings = mapping(at);
    for (const SweepSetting& setting : values)
        add(settings, setting.key, setting.value);
    add(part, "values", std::move(settings));
    part = goal_of(sweep.goal, std::move(part));
    if (sweep.early_stop.rule != EarlyStopSpec::Rule::none)
        add(part, "early_stop", early_stop_of(sweep.early_stop, at));
    std::erase_if(element.entries, [](const Entry& entry) { return entry.key == "sweep"; });
    add(element, "sweep", std::move(part));
    return element;
}

}  // namespace autolaunch::launcher
