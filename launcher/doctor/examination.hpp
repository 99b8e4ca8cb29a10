#pragma once
#include "doctor/finding.hpp"
#include "doctor/node_sources.hpp"
#include "nccl_env/nccl_env.hpp"
#include "topology/node_topology.hpp"
#include "topology/nvml.hpp"
#include "topology/verbs.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

struct Check;

/// What several checks of one process look at, read when first asked for.
///
/// Owner: who runs checks. Threads: one. Blocks: topology() for milliseconds, driver_devices() for
/// seconds, verbs_device() for some milliseconds an HCA, when things are well.
class ExaminedNode {
public:
    explicit ExaminedNode(const NodeSources& sources) : sources_(sources) {}
    const NodeSources& sources() const { return sources_; }
    const NodeTopology& topology();

    /// A management library was named, so that its word counts where no GPU is shown otherwise.
    bool driver_is_named() const;
    /// What NVIDIA's driver tells; nothing, and why, where it tells nothing.
    const std::optional<std::vector<NvmlDevice>>& driver_devices();
    const std::string& why_no_driver() const { return why_no_driver_; }
    const std::string& driver_version() const { return driver_version_; }

    /// What libibverbs tells of this HCA; null, and why, where it tells nothing.
    const VerbsDevice* verbs_device(const std::string& hca);
    const std::string& why_no_verbs() const { return why_no_verbs_; }

    /// What NCCL would see of the user's: the environment, then nccl.conf's files.
    const NcclConf& nccl_conf();
    EnvironmentMap nccl_settings();

private:
    const NodeSources& sources_;
    std::optional<NodeTopology> topology_;
    std::optional<NcclConf> conf_;
    bool driver_asked_ = false;
    std::optional<std::vector<NvmlDevice>> devices_;
    std::string why_no_driver_, driver_version_;
    bool verbs_asked_ = false;
    std::optional<std::vector<VerbsDevice>> verbs_;
    std::string why_no_verbs_;
};

/// One run of one check: what it sees, and where it says what it found. A check that says nothing
/// at all is fine.
///
/// Owner: run_check(). Threads: one. Blocks: never by itself.
class Examination {
public:
    Examination(const Check& check, ExaminedNode& state, std::size_t part)
        : check_(check), state_(state), part_(part) {}

    const NodeSources& sources() const { return state_.sources(); }
    const NodeTopology& topology() { return state_.topology(); }
    ExaminedNode& state() { return state_; }
    /// For checks that run once for each of several things, such as folders: which of them is
    /// meant.
    std::size_t part() const { return part_; }

    std::string sysfs(const std::string& path) const { return sources().roots.sysfs_root + path; }
    std::string proc(const std::string& path) const { return sources().roots.proc_root + path; }
    std::string dev(const std::string& path) const { return sources().roots.dev_root + path; }

    void fact(const std::string& key, const std::string& value) { report_.facts[key] = value; }
    /// With the check's own severity and fix.
    void found(const std::string& what);
    void found(Severity severity, const std::string& what, const std::string& fix = {});
    void nothing_to_look_at(const std::string& why);
    void cannot_look(const std::string& why);

    /// What was said; the check's name is among the fine ones when nothing was.
    NodeReport take();

private:
    const Check& check_;
    ExaminedNode& state_;
    std::size_t part_;
    NodeReport report_;
};

}  // namespace autolaunch::launcher
