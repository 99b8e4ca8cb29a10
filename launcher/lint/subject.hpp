#pragma once
#include "lint/edits.hpp"
#include "lint/launches.hpp"
#include "lint/metrics_file.hpp"
#include "lint/node_descriptions.hpp"
#include "lint/sbatch_script.hpp"
#include "lint/spec_file.hpp"
#include "spec/job_spec.hpp"
#include "stopping/save_times.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

enum class FileKind {
    script,
    spec,
    gres_conf,
    slurm_conf,
    document,  ///< Markdown: the blocks in it that people copy
    metrics,   ///< Prometheus' rules and configuration, Grafana's dashboards, dcgm-exporter's CSV
    other      ///< neither of them
};

/// A variable that the file puts into the environment of what it starts.
struct EnvironmentSetting {
    std::string name, value;
    int line = 0;
    bool literal = true;  ///< the value is written out, nothing in it is replaced
    bool exported =
        true;  ///< reaches programs; a plain NAME=VALUE of a script only reaches its own lines
    bool everywhere = true;  ///< for all of the script, not in a branch or for one command
};

/// What the rules look at: a file, or a block of a document, read once. Of the parts below only
/// that of its kind is filled; the others are empty, so that a rule for another kind finds nothing.
struct Subject {
    FileKind kind = FileKind::script;
    SourceLines source = {};  ///< what edits change
    bool excerpt = false;     ///< a block of a document that is no whole script
    SbatchScript script = {};
    std::vector<Launch> launches = {};  ///< of the script
    SpecFile spec = {};
    ConfFile conf = {};
    std::vector<MetricUse> metrics = {};
    std::vector<EnvironmentSetting> environment =
        {};  ///< of a script's exports, prefixes and --export, or a spec's env

    ConfFile cluster = {};  ///< --slurm-conf; empty without
    std::function<bool(const std::string&)> folder_exists =
        {};  ///< relative to where one submits; empty: not known
    /// Of the newest run below a folder of runs; empty: not known.
    std::function<SaveTimes(const std::string& runs)> save_times = {};
    /// Of the spec that a script names with -c; nothing: it cannot be read here.
    std::function<std::optional<ResourceSpec>(const std::string& spec)> resources_of = {};

    /// More machines than one, as far as the file says.
    bool many_nodes() const;
    bool exclusive() const;
    long long nodes() const;
};

}  // namespace autolaunch::launcher
