#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/s3/routed_storage.hpp"
#include "checkpoints/commands.hpp"
#include "checkpoints/open_checkpoint.hpp"
#include "report/units.hpp"

#include <autolaunch/checkpoint/safetensors.hpp>
#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

namespace {

using nlohmann::ordered_json;

/// What `ls` says of one directory.
struct Listed {
    std::string name;
    Look look;
};

std::vector<Listed> look_at_all(Storage& storage, const std::filesystem::path& directory,
                                const AuthenticationKeys& keys) {
    std::vector<Listed> all;
    const Listing listing = list_with_starts(storage, directory);
    for (const Candidate& candidate : listing.candidates)
        all.push_back(
            {candidate.name, look_at(storage, directory, candidate, listing.starts, keys)});
    return all;
}

std::string saved_text(const Manifest& manifest) {
    if (manifest.saved_unix_ms == 0)
        return "-";
    const auto seconds = static_cast<std::time_t>(manifest.saved_unix_ms / 1000);
    std::tm time = {};
    char text[64] = "-";
    if (::gmtime_r(&seconds, &time))
        std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &time);
    return text;
}

ordered_json summary(const Manifest& manifest) {
    ordered_json json = {{"step", manifest.step},
                         {"generation", manifest.generation},
                         {"saved_unix_ms", manifest.saved_unix_ms},
                         {"library", manifest.library},
                         {"world_size", manifest.world_size},
                         {"strategy", manifest.strategy},
                         {"tensors", manifest.tensors.size()},
                         {"files", manifest.files.size()},
                         {"bytes", file_bytes_of(manifest)},
                         {"encrypted", is_encrypted(manifest)}};
    if (manifest.parent_step)
        json["parent_step"] = *manifest.parent_step;
    return json;
}

std::string json_lines(const ordered_json& json) {
    return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + '\n';
}

std::string list_json(const std::filesystem::path& directory, const std::vector<Listed>& all) {
    ordered_json checkpoints = ordered_json::array();
    for (const Listed& one : all) {
        ordered_json json = {{"name", one.name}, {"complete", one.look.manifest.has_value()}};
        if (one.look.manifest) {
            json.update(summary(*one.look.manifest));
        } else {
            json["why"] = name_of(one.look.unusable.why);
            json["problem"] = one.look.unusable.reason;
        }
        checkpoints.push_back(std::move(json));
    }
    return json_lines({{"directory", directory.string()}, {"checkpoints", checkpoints}});
}

std::string list_text(const std::vector<Listed>& all) {
    std::string text = fmt::format("{:<26} {:<23} {:>6} {:>8} {:>10}  {}\n", "checkpoint", "saved",
                                   "ranks", "tensors", "size", "strategy");
    for (const Listed& one : all) {
        if (!one.look.manifest) {
            const UnusableCheckpoint& unusable = one.look.unusable;
            text += fmt::format("{:<26} {}: {}\n", one.name,
                                is_unknown(unusable.why)         ? "cannot be read"
                                : unusable.why == Unusable::late ? "does not count"
                                                                 : "not complete",
                                shown(unusable.reason));
            continue;
        }
        const Manifest& manifest = *one.look.manifest;
        text += fmt::format("{:<26} {:<23} {:>6} {:>8} {:>10}  {}\n", one.name,
                            saved_text(manifest), manifest.world_size, manifest.tensors.size(),
                            format_bytes(file_bytes_of(manifest)),
                            manifest.strategy.empty() ? "-" : shown(manifest.strategy));
    }
    return text;
}

ordered_json tensor_json(const TensorIndex& all, const Manifest::Tensor& tensor) {
    constexpr const char* kRoles[] = {"parameter", "optimizer", "opaque"};
    return {{"name", tensor.name},
            {"dtype", safetensors::name_of(tensor.type)},
            {"shape", tensor.shape},
            {"bytes", bytes_of(tensor)},
            {"role", kRoles[static_cast<int>(role_of(all, tensor))]},
            {"pieces", tensor.pieces.size()}};
}

std::string text_in(const ordered_json& json, const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

ordered_json lineage_json(const Manifest& manifest) {
    return manifest.lineage.empty() || !is_lineage(manifest.lineage)
               ? ordered_json()
               : ordered_json::parse(manifest.lineage, nullptr, false);
}

std::string show_json(const OpenCheckpoint& open,
                      const std::vector<const Manifest::Tensor*>& tensors) {
    ordered_json json = {{"path", open.path.string()}};
    json.update(summary(open.manifest));
    json["mesh"] = ordered_json::array();
    for (const auto& dimension : open.manifest.mesh)
        json["mesh"].push_back({dimension.name, dimension.size});
    json["extra"] = open.manifest.extra;
    json["lineage"] = lineage_json(open.manifest);
    json["files"] = ordered_json::array();
    for (const auto& file : open.manifest.files)
        json["files"].push_back({{"name", file.name}, {"rank", file.rank}, {"bytes", file.bytes}});
    json["tensors"] = ordered_json::array();
    const TensorIndex all(open.manifest);
    for (const auto* tensor : tensors)
        json["tensors"].push_back(tensor_json(all, *tensor));
    return json_lines(json);
}

// A line for each thing that is known.
std::string lineage_lines(const Manifest& manifest) {
    const ordered_json lineage = lineage_json(manifest);
    if (!lineage.is_object())
        return fmt::format("  {:<11}no lineage: an older version has saved it\n", "lineage");
    const std::string program = text_in(lineage, "program"), source = text_in(lineage, "source");
    std::string text = fmt::format(
        "  {:<11}{} by {} on {}{}\n", "lineage", shown(text_in(lineage, "made_by")),
        shown(text_in(lineage, "user")), shown(text_in(lineage, "host")),
        text_in(lineage, "job").empty() ? "" : ", job " + shown(text_in(lineage, "job")));
    const auto add = [&text](const std::string& what, const std::string& digest) {
        text += fmt::format("  {:<11}{}{}\n", "", shown(what),
                            digest.empty() ? "" : ", SHA-256 " + shown(digest));
    };
    if (!program.empty())
        add("program " + program, text_in(lineage, "program_sha256"));
    if (!text_in(lineage, "spec_digest").empty())
        add("spec " + text_in(lineage, "spec_digest"), "");
    if (!text_in(lineage, "data_sha256").empty())
        add("data, the spec's dataloader", text_in(lineage, "data_sha256"));
    if (!source.empty())
        add("from " + source, text_in(lineage, "source_sha256"));
    if (const auto parent = parent_of_lineage(manifest.lineage))
        add(fmt::format("after step {}{}", parent->step,
                        parent->path.empty() ? "" : " of " + parent->path),
            parent->manifest_sha256);
    if (!text_in(lineage, "signed_by").empty())
        add("signed with the Ed25519 key " + text_in(lineage, "signed_by"), "");
    return text;
}

std::string show_text(const OpenCheckpoint& open,
                      const std::vector<const Manifest::Tensor*>& tensors, bool each) {
    const Manifest& manifest = open.manifest;
    std::string text = shown(open.path.string()) + '\n';
    text += fmt::format(
        "  {:<11}{}, generation {}{}\n", "step", manifest.step, manifest.generation,
        manifest.parent_step ? fmt::format(", after step {}", *manifest.parent_step) : "");
    text += fmt::format("  {:<11}{} by autolaunch {}\n", "saved", saved_text(manifest),
                        shown(manifest.library));
    std::string mesh;
    for (const auto& dimension : manifest.mesh)
        mesh += fmt::format(", {} {}", shown(dimension.name), dimension.size);
    text += fmt::format("  {:<11}{}{}{}\n", "ranks", manifest.world_size, mesh,
                        manifest.strategy.empty() ? "" : ", " + shown(manifest.strategy));
    text += fmt::format("  {:<11}{} in {} files\n", "size", format_bytes(file_bytes_of(manifest)),
                        manifest.files.size());
    if (is_encrypted(manifest))
        text += fmt::format("  {:<11}with age; plain `age -d` opens its files\n", "encrypted");
    if (open.check == BlockCheck::tampering)
        text += fmt::format("  {:<11}its MAC is that of the authentication key\n", "authentic");
    text += lineage_lines(manifest);
    text += counts_by_role(manifest, tensors);
    if (manifest.extra != "{}")
        text += fmt::format("  {:<11}{}\n", "extra", shown(manifest.extra));
    if (!each)
        return text;
    for (const auto* tensor : tensors)
        text += fmt::format("  {:<4} {:<24} {}\n", safetensors::name_of(tensor->type),
                            shape_text(tensor->shape), shown(tensor->name));
    return text;
}

}  // namespace

CheckpointOutcome list_checkpoints(const CheckpointRequest& request) {
    const std::filesystem::path directory = request.paths.at(0);
    require_directory(directory);
    const auto storage = make_routed_storage();
    const auto all =
        look_at_all(*storage, directory, AuthenticationKeys::find(encryption_of(request)));
    if (request.json)
        return {list_json(directory, all), 0};
    if (all.empty())
        return {"no checkpoints in " + shown(directory.string()) + '\n', 0};
    return {list_text(all), 0};
}

CheckpointOutcome show_checkpoint(const CheckpointRequest& request) {
    const OpenCheckpoint open = open_checkpoint(request.paths.at(0), encryption_of(request));
    std::vector<const Manifest::Tensor*> tensors;
    for (const auto& tensor : open.manifest.tensors)
        if (is_selected(tensor.name, request.only))
            tensors.push_back(&tensor);
    return {request.json ? show_json(open, tensors) : show_text(open, tensors, request.tensors), 0,
            open.skipped};
}

}  // namespace autolaunch::launcher
