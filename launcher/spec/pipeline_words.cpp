#include "spec/pipeline_words.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <set>
#include <string>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostStages = 200;

std::string path_of(std::size_t index, const std::string& key = {}) {
    return "pipeline[" + std::to_string(index) + ']' + (key.empty() ? "" : '.' + key);
}

bool is_stage_name(const std::string& name) {
    return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return c < 128 && (std::isalnum(c) != 0 || c == '_' || c == '-');
    });
}

/// One stage as it stands in the file.
class StageReader {
public:
    StageReader(const Value& section, std::vector<SpecError>& errors)
        : section_(section), errors_(errors) {}

    StageSpec read(std::size_t index) {
        const Value& value = section_.items[index];
        StageSpec stage;
        if (!value.is_mapping()) {
            fail(value.at, path_of(index),
                 "expected a mapping with name, spec and after; found " + describe(value));
            return stage;
        }
        for (const Entry& entry : value.entries) {
            const std::string path = path_of(index, entry.key);
            if (entry.key == "name")
                stage.name = text_of(entry.value, path);
            else if (entry.key == "spec")
                stage.spec = text_of(entry.value, path);
            else if (entry.key == "after")
                read_after(entry.value, index, stage);
            else
                fail(entry.key_at, path, "unknown key; a stage has name, spec, after");
        }
        if (!is_stage_name(stage.name))
            fail(value.at, path_of(index, "name"),
                 "expected a name of letters, digits, - and _, as in train");
        if (stage.spec.empty())
            fail(value.at, path_of(index, "spec"), "expected a spec's file, as in train.yaml");
        return stage;
    }

private:
    void fail(const Origin& at, const std::string& key, std::string message) {
        errors_.push_back(error_at(at, key, std::move(message)));
    }
    std::string text_of(const Value& value, const std::string& path) {
        if (value.is_scalar())
            return value.text;
        fail(value.at, path, "expected text; found " + describe(value));
        return {};
    }
    void add(StageSpec& stage, const std::string& before, const Value& word,
             const std::string& path) {
        static const std::set<std::string> kWords = {"ok", "any", "notok", "corr"};
        if (word.is_scalar() && kWords.contains(word.text))
            stage.after.push_back({before, word.text});
        else
            fail(word.at, path, "expected ok, any, notok or corr; found " + describe(word));
    }
    /// A word is about the stage before; a mapping names stages.
    void read_after(const Value& value, std::size_t index, StageSpec& stage) {
        const std::string path = path_of(index, "after");
        if (value.is_null())
            return;
        for (const Entry& entry : value.entries)
            add(stage, entry.key, entry.value, path + '.' + entry.key);
        if (value.is_mapping())
            return;
        if (index == 0)
            return fail(value.at, path,
                        "is about the stage before this one, and this is the first; {NAME: ok} "
                        "names another");
        const Value& before = section_.items[index - 1];
        const Entry* name = before.is_mapping() ? before.find("name") : nullptr;
        add(stage, name == nullptr ? "" : name->value.text, value, path);
    }

    const Value& section_;
    std::vector<SpecError>& errors_;
};

/// Where a circle is, nothing comes next.
std::vector<StageSpec> in_order(std::vector<StageSpec>& left) {
    std::vector<StageSpec> ordered;
    std::set<std::string> placed;
    const auto is_next = [&](const StageSpec& stage) {
        return std::all_of(stage.after.begin(), stage.after.end(),
                           [&](const StageAfter& one) { return placed.contains(one.stage); });
    };
    while (!left.empty()) {
        const auto next = std::find_if(left.begin(), left.end(), is_next);
        if (next == left.end())
            break;
        placed.insert(next->name);
        ordered.push_back(std::move(*next));
        left.erase(next);
    }
    return ordered;
}

}  // namespace

void read_pipeline(const Value& section, std::vector<StageSpec>& stages,
                   std::vector<SpecError>& errors) {
    if (section.is_null())
        return;
    if (!section.is_sequence() || section.items.empty() || section.items.size() > kMostStages) {
        errors.push_back(
            error_at(section.at, "pipeline",
                     "expected a list of 1 to 200 stages; found " + describe(section)));
        return;
    }
    const std::size_t before = errors.size();
    std::vector<StageSpec> read;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < section.items.size(); ++i) {
        read.push_back(StageReader(section, errors).read(i));
        if (std::find(names.begin(), names.end(), read.back().name) != names.end())
            errors.push_back(error_at(section.items[i].at, path_of(i, "name"),
                                      "\"" + read.back().name + "\" is another stage's name"));
        names.push_back(read.back().name);
    }
    for (std::size_t i = 0; i < read.size(); ++i)
        for (const StageAfter& one : read[i].after)
            if (std::find(names.begin(), names.end(), one.stage) == names.end()) {
                const std::string near = nearest(one.stage, names);
                errors.push_back(
                    error_at(section.items[i].at, path_of(i, "after"),
                             "no stage is called \"" + one.stage + "\"" +
                                 (near.empty() ? "" : "; did you mean " + near + "?")));
            }
    if (errors.size() > before)
        return;
    stages = in_order(read);
    if (read.empty())
        return;
    std::vector<std::string> round;
    for (const StageSpec& stage : read)
        round.push_back(stage.name);
    errors.push_back(error_at(section.at, "pipeline",
                              "goes round in a circle: each of " + join(round, ", ") +
                                  " comes after another of them, or after itself"));
}

}  // namespace autolaunch::launcher
