#include "spec/field_reader.hpp"

#include "base/text.hpp"
#include "base/workspace.hpp"
#include "spec/kubernetes_words.hpp"
#include "spec/preload_words.hpp"
#include "spec/rank_words.hpp"
#include "spec/restart_rules.hpp"
#include "spec/scalar.hpp"
#include "spec/stage_out_words.hpp"
#include "spec/storage_words.hpp"
#include "spec/tier_words.hpp"
#include "spec/units.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

namespace autolaunch::launcher {

namespace {

/// Reads one value into the type of its field. Each `read` returns false for a value that is not
/// what the key expects.
class FieldReader {
public:
    FieldReader(const Key& key, const std::string& path, const Value& value,
                std::vector<SpecError>& errors)
        : key_(key), path_(path), value_(value), errors_(errors) {}

    void into(JobSpec& spec) {
        const bool good = std::visit(
            [&](auto field) {
                if constexpr (std::is_same_v<decltype(field), std::monostate>)
                    return true;
                else
                    return read(field(spec));
            },
            key_.field);
        if (good || reported_)
            return;
        const bool quoted = value_.is_scalar() && !value_.plain && !value_.interpolated;
        errors_.push_back(error_at(value_.at, path_,
                                   "expected " + expectation(key_) + "; found " + describe(value_) +
                                       (quoted && wants_number() ? " in quotes" : "")));
    }

private:
    bool read(std::string& field);
    bool read(int& field) {
        const auto number = whole_number(value_);
        if (number)
            field = static_cast<int>(*number);
        return number.has_value();
    }
    bool read(bool& field) {
        const auto boolean = is_typed(value_) ? boolean_from(value_.text) : std::nullopt;
        if (boolean)
            field = *boolean;
        return boolean.has_value();
    }
    bool read(std::optional<double>& field);
    bool read(std::optional<std::int64_t>& field);
    template <class T>
    bool read(std::optional<T>& field) {
        T inner{};
        if (!read(inner))
            return false;
        field = inner;
        return true;
    }
    bool read(std::chrono::milliseconds& field) {
        const auto duration = value_.is_scalar() ? duration_from(value_.text) : std::nullopt;
        if (!duration || duration->count() < key_.minimum)
            return false;
        field = *duration;
        return true;
    }
    bool read(std::vector<std::string>& field);
    bool read(std::vector<int>& field);
    bool read(std::map<std::string, std::string>& field);
    bool read(StdStreams& field);
    bool read(Preflight& field);
    bool read(InputSpec& field) {
        const auto found = value_.is_scalar() ? input_from(value_.text) : std::nullopt;
        field = found.value_or(field);
        return found.has_value();
    }
    bool read(PreloadSpec& field);
    bool read(HangAfter& field);
    bool read(std::uint32_t& field) {
        const auto mode = value_.is_scalar() ? folder_mode_from(value_.text) : std::nullopt;
        field = mode.value_or(field);
        return mode.has_value();
    }
    bool read(RestartRules& field) {
        const std::size_t before = errors_.size();
        const bool is_mapping = read_restart_rules(value_, path_, field, errors_);
        reported_ = errors_.size() > before;
        return is_mapping && !reported_;
    }
    /// Of the section `kubernetes`: whether it is of its kind, with errors of its own.
    template <class T, class Reader>
    bool read_by(Reader reader, T& field) {
        const std::size_t before = errors_.size();
        const bool is_of_its_kind = reader(value_, path_, field, errors_);
        reported_ = errors_.size() > before;
        return is_of_its_kind && !reported_;
    }
    bool read(std::vector<KubernetesToleration>& field) { return read_by(read_tolerations, field); }
    bool read(std::vector<KubernetesSpread>& field) { return read_by(read_spread, field); }
    bool read(std::vector<KubernetesVolume>& field) { return read_by(read_volumes, field); }
    bool read(std::map<std::string, int>& field) { return read_by(read_counted_resources, field); }
    bool read(std::map<std::string, std::int64_t>& field) { return read_by(read_hugepages, field); }
    bool read(KubernetesSecretKey& field) { return read_secret_key(value_, field); }
    bool read(std::map<std::string, KubernetesSecretKey>& field) {
        return read_by(read_secret_keys, field);
    }
    bool read(std::vector<StageInSpec>& field) { return read_by(read_stage_in, field); }
    bool read(std::vector<StageOutSpec>& field) { return read_by(read_stage_out, field); }
    bool read(std::vector<TierSpec>& field) { return read_by(read_tiers, field); }
    bool read(StripeSpec& field) { return read_by(read_stripe, field); }
    bool read(ResourceSpec& field) {
        if (key_.form == Form::nodes)
            return read_nodes(field);
        return key_.form == Form::binding ? read_binding(field) : read_ranks_per_node(field);
    }
    bool read_nodes(ResourceSpec& field);
    bool read_node_counts(ResourceSpec& field);
    bool read_ranks_per_node(ResourceSpec& field);
    bool read_binding(ResourceSpec& field);
    bool read_binding_list(std::vector<std::string>& list);

    bool wants_number() const {
        return key_.form == Form::whole_number || key_.form == Form::number ||
               key_.form == Form::boolean || key_.form == Form::ranks_per_node ||
               key_.form == Form::nodes;
    }
    /// Text in quotes is text, unless a ${VAR} was replaced in it: those have no other way to write
    /// it.
    static bool is_typed(const Value& value) {
        return value.is_scalar() && (value.plain || value.interpolated);
    }
    static bool names_a_command(const Value& value) {
        return value.is_scalar() && !value.is_null() && !trim(value.text).empty();
    }
    std::optional<std::int64_t> whole_number(const Value& value) const;
    std::optional<std::string> text(const Value& value, const std::string& path);

    const Key& key_;
    const std::string& path_;
    const Value& value_;
    std::vector<SpecError>& errors_;
    bool reported_ = false;  ///< with a message of its own
};

std::optional<std::int64_t> FieldReader::whole_number(const Value& value) const {
    if (!is_typed(value))
        return std::nullopt;
    const Scalar scalar = resolve_scalar(value.text);
    const auto* number = std::get_if<std::int64_t>(&scalar);
    if (number == nullptr || *number < key_.minimum || *number > key_.maximum)
        return std::nullopt;
    return *number;
}

/// Whatever scalar is there, as it was written.
std::optional<std::string> FieldReader::text(const Value& value, const std::string& path) {
    if (!value.is_scalar())
        return std::nullopt;
    if (value.text.find('\0') != std::string::npos) {
        errors_.push_back(error_at(value.at, path,
                                   "has a NUL character, which no program or file name can hold"));
        reported_ = true;
        return std::nullopt;
    }
    return value.text;
}

bool FieldReader::read(std::string& field) {
    auto found = text(value_, path_);
    if (!found)
        return false;
    if (key_.form == Form::time_limit) {
        if (!is_slurm_time_limit(*found))
            return false;
    } else if (!key_.choices.empty()) {
        std::transform(found->begin(), found->end(), found->begin(),
                       [](unsigned char c) { return std::tolower(c); });
        if (std::find(key_.choices.begin(), key_.choices.end(), *found) == key_.choices.end())
            return false;
    }
    field = *found;
    return true;
}

bool FieldReader::read(std::optional<double>& field) {
    if (!is_typed(value_))
        return false;
    const Scalar scalar = resolve_scalar(value_.text);
    double number = 0;
    if (const auto* real = std::get_if<double>(&scalar))
        number = *real;
    else if (const auto* whole = std::get_if<std::int64_t>(&scalar))
        number = static_cast<double>(*whole);
    if (!std::isfinite(number) || number <= 0)
        return false;
    field = number;
    return true;
}

bool FieldReader::read(std::optional<std::int64_t>& field) {
    std::optional<std::int64_t> number;
    if (key_.form == Form::count)
        number = value_.is_scalar() ? count_from(value_.text) : std::nullopt;
    else if (key_.form != Form::size)
        number = whole_number(value_);
    else if (value_.is_scalar())
        number = bytes_from(value_.text);
    if (number && key_.form == Form::size && *number < key_.minimum)
        return false;
    if (number)
        field = number;
    return number.has_value();
}

bool FieldReader::read(std::vector<std::string>& field) {
    std::vector<std::string> list;
    if (key_.form == Form::command && value_.is_scalar()) {
        const auto line = text(value_, path_);
        if (!line || trim(*line).empty())
            return false;
        field = {"/bin/sh", "-c", *line};
        return true;
    }
    if (!value_.is_sequence())
        return false;
    for (std::size_t i = 0; i < value_.items.size(); ++i) {
        const std::string path = path_ + '[' + std::to_string(i) + ']';
        const auto item = text(value_.items[i], path);
        if (item) {
            list.push_back(*item);
        } else if (!std::exchange(reported_, true)) {
            errors_.push_back(error_at(value_.items[i].at, path,
                                       "expected text; found " + describe(value_.items[i])));
        }
    }
    if (reported_)
        return false;
    if (key_.form == Form::command && (list.empty() || list[0].empty())) {
        errors_.push_back(
            error_at(value_.at, path_, "names no program; expected " + expectation(key_)));
        reported_ = true;
        return false;
    }
    field = std::move(list);
    return true;
}

bool FieldReader::read(std::vector<int>& field) {
    if (!value_.is_sequence())
        return false;
    std::vector<int> list;
    for (const auto& item : value_.items) {
        const auto number = whole_number(item);
        if (!number) {
            errors_.push_back(error_at(
                item.at, path_, "expected " + expectation(key_) + "; found " + describe(item)));
            reported_ = true;
            return false;
        }
        list.push_back(static_cast<int>(*number));
    }
    field = std::move(list);
    return true;
}

bool FieldReader::read(std::map<std::string, std::string>& field) {
    if (!value_.is_mapping())
        return false;
    for (const auto& entry : value_.entries) {
        const std::string path = path_ + '.' + entry.key;
        const auto complain = [&](const Origin& at, const std::string& message) {
            errors_.push_back(error_at(at, path, message));
            reported_ = true;
        };
        if (key_.form == Form::wrap_map && !rank_set_from(entry.key)) {
            complain(entry.key_at, "names no ranks; expected all, or ranks such as 0 or \"0,3-5\"");
        } else if (key_.form == Form::wrap_map && !names_a_command(entry.value)) {
            complain(entry.value.at, "expected a command line; found " + describe(entry.value));
        } else if (entry.key.empty() || entry.key.find('=') != std::string::npos ||
                   entry.key.find('\0') != std::string::npos) {
            complain(entry.key_at, "is no name of an environment variable");
        } else if (key_.form == Form::nccl_map && !entry.key.starts_with("NCCL_")) {
            complain(entry.key_at,
                     "is no NCCL variable (NCCL_*); other variables belong in trainer.env");
        } else if (entry.value.is_null()) {
            field[entry.key] = "";
        } else if (const auto found = text(entry.value, path)) {
            field[entry.key] = *found;
        } else if (!entry.value.is_scalar()) {
            complain(entry.value.at, "expected text; found " + describe(entry.value));
        }
    }
    return !reported_;
}

bool FieldReader::read(StdStreams& field) {
    if (!value_.is_scalar())
        return false;
    if (value_.text == "all")
        field = StdStreams::all;
    else if (value_.text == "stdout")
        field = StdStreams::out;
    else if (value_.text == "stderr")
        field = StdStreams::err;
    else if (value_.text == "none")
        field = StdStreams::none;
    else
        return false;
    return true;
}

bool FieldReader::read(Preflight& field) {
    bool wanted = true;
    if (value_.is_scalar() && value_.text == "warn") {
        field = Preflight::warn;
        return true;
    }
    if (!read(wanted))
        return false;
    field = wanted ? Preflight::stop : Preflight::off;
    return true;
}

bool FieldReader::read(PreloadSpec& field) {
    if (value_.is_scalar()) {
        const auto found = preload_word(value_.text);
        field = found.value_or(field);
        return found.has_value();
    }
    if (!value_.is_sequence() || value_.items.empty())
        return false;
    PreloadSpec listed{.how = PreloadSpec::How::listed, .modules = {}};
    for (std::size_t i = 0; i < value_.items.size(); ++i) {
        const Value& item = value_.items[i];
        if (item.is_scalar() && is_module_name(item.text)) {
            listed.modules.push_back(item.text);
            continue;
        }
        errors_.push_back(error_at(item.at, path_ + '[' + std::to_string(i) + ']',
                                   "expected a Python module's name; found " + describe(item)));
        reported_ = true;
    }
    if (!reported_)
        field = std::move(listed);
    return !reported_;
}

bool FieldReader::read(HangAfter& field) {
    if (!value_.is_scalar())
        return false;
    HangAfter told{.automatic = value_.text == "auto", .after = {}};
    if (!told.automatic && value_.text != "off") {
        told.after = duration_from(value_.text);
        if (!told.after || told.after->count() < key_.minimum)
            return false;
    }
    field = told;
    return true;
}

bool FieldReader::read_nodes(ResourceSpec& field) {
    if (value_.is_mapping())
        return read_node_counts(field);
    const auto number = whole_number(value_);
    if (!number)
        return false;
    field.nodes = field.most_nodes = static_cast<int>(*number);
    field.spare_nodes = 0;
    field.node_group = 1;
    return true;
}

// {min, max, spares}: of min and max the one that is left out is as the other.
bool FieldReader::read_node_counts(ResourceSpec& field) {
    std::optional<int> fewest, most, spares, group;
    const auto complain = [this](const Origin& at, const std::string& path,
                                 const std::string& message) {
        errors_.push_back(error_at(at, path, message));
        reported_ = true;
    };
    for (const auto& entry : value_.entries) {
        const std::string path = path_ + '.' + entry.key;
        std::optional<int>* const count = entry.key == "min"      ? &fewest
                                          : entry.key == "max"    ? &most
                                          : entry.key == "spares" ? &spares
                                          : entry.key == "group"  ? &group
                                                                  : nullptr;
        if (count == nullptr) {
            complain(entry.key_at, path, "unknown key; there are min, max, spares, group");
            continue;
        }
        const Scalar scalar = is_typed(entry.value) ? resolve_scalar(entry.value.text) : Scalar();
        const auto* number = std::get_if<std::int64_t>(&scalar);
        const int least = count == &spares ? 0 : 1;
        if (number == nullptr || *number < least || *number > key_.maximum)
            complain(entry.value.at, path,
                     "expected a whole number >= " + std::to_string(least) + "; found " +
                         describe(entry.value));
        else
            *count = static_cast<int>(*number);
    }
    if (!reported_ && !fewest && !most)
        complain(value_.at, path_, "says neither min nor max: how many nodes?");
    if (!reported_ && fewest && most && *most < *fewest)
        complain(value_.at, path_, "max is smaller than min");
    for (const auto& count : {fewest, most})
        if (!reported_ && count && *count % group.value_or(1) != 0)
            complain(value_.at, path_, "min and max are no multiples of group");
    if (reported_)
        return false;
    field.nodes = fewest ? *fewest : *most;
    field.most_nodes = most ? *most : *fewest;
    field.spare_nodes = spares.value_or(0);
    field.node_group = group.value_or(1);
    return true;
}

bool FieldReader::read_binding(ResourceSpec& field) {
    if (value_.is_sequence())
        return !value_.items.empty() && read_binding_list(field.binding_list);
    if (!read(field.binding))
        return false;
    field.binding_list.clear();
    return true;
}

bool FieldReader::read_binding_list(std::vector<std::string>& list) {
    std::vector<std::string> entries;
    for (std::size_t i = 0; i < value_.items.size(); ++i) {
        const Value& item = value_.items[i];
        if (!item.is_scalar() || !is_binding_entry(item.text)) {
            errors_.push_back(error_at(
                item.at, path_ + '[' + std::to_string(i) + ']',
                "expected CPUs (\"0-7,64-71\"), NUMA nodes (numa:1) or cores (core:0-3); found " +
                    describe(item)));
            reported_ = true;
            continue;
        }
        entries.emplace_back(trim(item.text));
    }
    if (!reported_)
        list = std::move(entries);
    return !reported_;
}

bool FieldReader::read_ranks_per_node(ResourceSpec& field) {
    if (!value_.is_scalar())
        return false;
    if (value_.text == "auto") {
        field.ranks_mode = RanksPerNode::automatic;
    } else if (value_.text == "cpu") {
        field.ranks_mode = RanksPerNode::cpu;
    } else if (value_.text == "gpu") {
        field.ranks_mode = RanksPerNode::gpu;
    } else {
        const auto number = whole_number(value_);
        if (!number)
            return false;
        field.ranks_mode = RanksPerNode::fixed;
        field.ranks_per_node = static_cast<int>(*number);
    }
    field.ranks_of_each_launcher = false;
    return true;
}

}  // namespace

void read_field(const Key& key, const std::string& path, const Value& value, JobSpec& spec,
                std::vector<SpecError>& errors) {
    if (value.is_null() ||
        (value.is_scalar() && value.interpolated && value.plain && value.text.empty()))
        return;
    FieldReader(key, path, value, errors).into(spec);
}

}  // namespace autolaunch::launcher
