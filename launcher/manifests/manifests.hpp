#pragma once
#include "spec/spec.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Whose objects they are.
enum class ManifestKind {
    kubernetes,  ///< an indexed Job with a headless Service
    jobset,      ///< a JobSet of one replicated Job
    volcano      ///< a Job of Volcano
};
std::optional<ManifestKind> manifest_kind_from(std::string_view word);
/// "kubernetes, jobset, volcano"
std::string manifest_kinds();

struct ManifestRequest {
    ManifestKind kind = ManifestKind::kubernetes;
    const SpecResult& read;  ///< without errors
    /// SaveTimes::p99() of an earlier run: the pods get that much time when they are stopped.
    std::optional<std::chrono::milliseconds> save = {};
};

struct Manifests {
    std::string yaml;  ///< for `kubectl apply -f -`; complete only without errors
    /// What of the spec is not carried over, and what the pods lack: a sentence each.
    std::vector<std::string> notes;
    std::vector<SpecError> errors;
};

/// The objects for this spec. Pure. No secret's value is in them: the spec travels as a ConfigMap,
/// and one that holds a secret is an error at its line.
Manifests manifests(const ManifestRequest& request);

}  // namespace autolaunch::launcher
