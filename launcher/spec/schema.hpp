#pragma once
#include "spec/job_spec.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace autolaunch::launcher {

// The one table of all sections and keys. The parser, its messages, the JSON Schema and
// docs/spec.md come from it.

/// How a value is written; the field says where it goes.
enum class Form {
    text,
    whole_number,
    number,
    boolean,
    duration,    ///< units.hpp
    size,        ///< units.hpp
    count,       ///< units.hpp
    time_limit,  ///< units.hpp
    command,     ///< list of strings, or one shell line
    text_list,
    number_list,
    text_map,        ///< names to text
    nccl_map,        ///< the same, names beginning with NCCL_
    ranks_per_node,  ///< auto, cpu, gpu or a number
    nodes,           ///< a number, or {min, max, spares}
    binding,         ///< one of the choices, or a list of CPUs
    streams,         ///< all, stdout, stderr, none
    preflight,       ///< a boolean, or warn
    input,           ///< none, all or a rank
    preload,         ///< auto, off or a list of Python modules
    wrap_map,        ///< ranks to a command line
    hang_after,      ///< auto, off or a duration
    folder_mode,     ///< octal, as chmod writes it
    restart_map,     ///< causes to what follows from them
    tolerations,     ///< a list of Kubernetes' tolerations
    spread,          ///< a label of nodes, or a list of {topology_key, max_skew, …}
    resource_map,    ///< names of extended resources to whole numbers
    hugepages,       ///< sizes of pages to sizes
    volumes,         ///< a list of {mount, claim or host_path or …}
    secret_key,      ///< SECRET/KEY
    secret_keys,     ///< names to SECRET/KEY
    stage_in,        ///< a list of {from, as, verify}
    stage_out,       ///< a list of {from, to, when, …}
    tiers,           ///< a list of {place, every, keep, …}
    stripe,          ///< auto, or {count, size}
    of_site,         ///< a mapping that launcher/site reads, as the administrator's file has it
    free_form        ///< the trainer's own
};

template <class T>
using FieldOf = T& (*)(JobSpec&);
/// Where a value goes; monostate: only into the trainer's configuration.
using Field = std::variant<
    std::monostate, FieldOf<std::string>, FieldOf<int>, FieldOf<bool>, FieldOf<std::optional<int>>,
    FieldOf<std::optional<bool>>, FieldOf<std::optional<double>>,
    FieldOf<std::optional<std::int64_t>>, FieldOf<std::optional<std::uint32_t>>,
    FieldOf<std::chrono::milliseconds>, FieldOf<std::optional<std::chrono::milliseconds>>,
    FieldOf<std::vector<std::string>>, FieldOf<std::vector<int>>,
    FieldOf<std::map<std::string, std::string>>, FieldOf<StdStreams>, FieldOf<Preflight>,
    FieldOf<ResourceSpec>, FieldOf<InputSpec>, FieldOf<PreloadSpec>, FieldOf<HangAfter>,
    FieldOf<RestartRules>, FieldOf<std::vector<KubernetesToleration>>,
    FieldOf<std::vector<KubernetesSpread>>, FieldOf<std::vector<KubernetesVolume>>,
    FieldOf<std::map<std::string, int>>, FieldOf<std::map<std::string, std::int64_t>>,
    FieldOf<KubernetesSecretKey>, FieldOf<std::map<std::string, KubernetesSecretKey>>,
    FieldOf<std::vector<StageInSpec>>, FieldOf<std::vector<StageOutSpec>>,
    FieldOf<std::vector<TierSpec>>, FieldOf<StripeSpec>>;

struct Key {
    std::string_view name;
    Form form;
    Field field;
    std::string_view default_value;  ///< as one would write it; empty: nothing
    std::string_view description;
    std::vector<std::string_view> choices = {};  ///< of a text, in lower case; empty: any
    std::int64_t minimum = 0;                    ///< of numbers; of durations, whole seconds in ms
    std::int64_t maximum = 2'147'483'647;
};

struct Section {
    std::string_view name;
    std::string_view description;
    bool free_form = false;    ///< reaches the trainer untouched, has no keys of ours
    bool for_trainer = false;  ///< reaches the trainer as given, besides being read by us
    std::vector<Key> keys = {};
    bool of_site = false;      ///< launcher/site reads it, as in the administrator's file
    bool of_pipeline = false;  ///< a list of stages (pipeline_words.hpp)
    bool of_sweep = false;     ///< many jobs of one spec (sweep_words.hpp)
    bool of_secrets = false;   ///< its keys are names of variables (secret_words.hpp)

    const Key* find(std::string_view key) const;
    std::vector<std::string> key_names() const;
};

/// In the order in which they are documented.
std::span<const Section> sections();
const Section* find_section(std::string_view name);
std::vector<std::string> section_names();
/// Sections that later versions read, so specs have them already. An error, never ignored.
std::span<const std::string_view> sections_to_come();

/// "a whole number >= 1", "a duration such as 15s, 500ms, 2m, or seconds": completes "expects …".
std::string expectation(const Key& key);

/// JSON Schema (draft 7) of a spec, indented.
std::string json_schema();
/// docs/spec.md's list of sections and keys.
std::string schema_markdown();

}  // namespace autolaunch::launcher
