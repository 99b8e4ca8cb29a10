#pragma once
#include "manifests/pod_facts.hpp"
#include "manifests/tree.hpp"

#include <map>
#include <string>

namespace autolaunch::launcher {

/// Of the job and its pods: the user's own, and by which they are found.
std::map<std::string, std::string> labels_of(const JobSpec& spec, const PodFacts& facts);
/// name, namespace, labels, annotations.
MapNode metadata_of(const JobSpec& spec, const PodFacts& facts, const std::string& name);

struct PodPlace {
    std::string subdomain = {};  ///< of the headless Service, where its kind does not set it
    std::string scheduler = {};  ///< empty: the cluster's own
    bool deadline_here = false;  ///< its kind has none for the whole job
};
/// The template of the job's pods: what runs, on what, as whom.
Value pod_template(const JobSpec& spec, const PodFacts& facts, const PodPlace& place);

}  // namespace autolaunch::launcher
