#include "manifests/manifests.hpp"

#include "manifests/jobs.hpp"
#include "manifests/pod_checks.hpp"
#include "manifests/pod_notes.hpp"
#include "manifests/pod_secrets.hpp"
#include "manifests/pod_spec.hpp"
#include "manifests/pod_template.hpp"
#include "manifests/yaml_text.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace autolaunch::launcher {

namespace {

struct KindWord {
    std::string_view word;
    ManifestKind kind;
    std::vector<Value> (*objects)(const JobSpec& spec, const PodFacts& facts);
};
constexpr std::array<KindWord, 3> kKinds = {{{"kubernetes", ManifestKind::kubernetes, indexed_job},
                                             {"jobset", ManifestKind::jobset, job_set},
                                             {"volcano", ManifestKind::volcano, volcano_job}}};

constexpr std::size_t kLargestConfigMap = std::size_t{1} << 20;

/// It cannot be changed while pods that come back read it.
Value spec_map(const ManifestRequest& request, const PodFacts& facts, Manifests& result) {
    std::string text = spec_of_pods(request.read, facts);
    if (text.size() > kLargestConfigMap)
        result.errors.push_back(
            {request.read.spec.spec_file, 0, 0, "",
             fmt::format(
                 "is {} bytes, and a ConfigMap holds 1 MiB: put the trainer's settings into "
                 "a file of the image or of a volume",
                 text.size()),
             false});
    return MapNode()
        .text("apiVersion", "v1")
        .text("kind", "ConfigMap")
        .add("metadata", metadata_of(request.read.spec, facts, facts.name + "-spec"))
        .boolean("immutable", true)
        .add("data", MapNode().text(kSpecFile, std::move(text)));
}

}  // namespace

std::optional<ManifestKind> manifest_kind_from(std::string_view word) {
    for (const KindWord& known : kKinds)
        if (known.word == word)
            return known.kind;
    return std::nullopt;
}

std::string manifest_kinds() {
    std::string words;
    for (const KindWord& known : kKinds)
        words += (words.empty() ? "" : ", ") + std::string(known.word);
    return words;
}

Manifests manifests(const ManifestRequest& request) {
    Manifests result;
    const PodFacts facts = pod_facts(request);
    check_pods(request, facts, result);
    check_pod_secrets(request.read, result);
    std::vector<Value> objects = {spec_map(request, facts, result)};
    for (const KindWord& known : kKinds)
        if (known.kind == request.kind)
            for (Value& object : known.objects(request.read.spec, facts))
                objects.push_back(std::move(object));
    note_pods(request, facts, result);
    for (const Value& object : objects)
        result.yaml += (result.yaml.empty() ? "" : "---\n") + yaml_text(object);
    return result;
}

}  // namespace autolaunch::launcher
