#include "spec/container_words.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

constexpr std::string_view kDigestKind = "sha256:";
constexpr std::size_t kDigestDigits = 64;

constexpr char kMountForm[] =
    "expected SOURCE, SOURCE:TARGET or either with :ro or :rw behind it; both are absolute paths "
    "without blanks, colons and commas, which the runtimes have for themselves";

constexpr char kWhyNotDocker[] =
    "docker's containers are children of its daemon and not of autolaunch, which could neither "
    "watch nor end them, and they are outside the job's cgroup; take podman, apptainer or enroot "
    "(images of docker run in all of them)";

bool is_mount_path(std::string_view path) {
    return path.size() > 1 && path.front() == '/' && path.find("/../") == path.npos &&
           !path.ends_with("/..") && std::none_of(path.begin(), path.end(), [](char c) {
               return static_cast<unsigned char>(c) <= ' ' || c == ':' || c == ',' || c == '\x7f';
           });
}

std::string without_slash(std::string_view path) {
    while (path.size() > 1 && path.ends_with('/'))
        path.remove_suffix(1);
    return std::string(path);
}

const Entry* entry_of(const Value& section, std::string_view name) {
    const Entry* entry = section.find(name);
    return entry == nullptr || entry->value.is_null() ? nullptr : entry;
}

void check_runtime(const Value& section, std::vector<SpecError>& errors) {
    const Entry* runtime = entry_of(section, "runtime");
    if (runtime == nullptr || !runtime->value.is_scalar() || runtime->value.text != "docker")
        return;
    std::erase_if(errors, [](const SpecError& error) { return error.key == "container.runtime"; });
    errors.push_back(error_at(runtime->value.at, "container.runtime", kWhyNotDocker));
}

void check_mounts(const Value& section, std::vector<SpecError>& errors) {
    const Entry* mounts = entry_of(section, "mounts");
    if (mounts == nullptr || !mounts->value.is_sequence())
        return;
    std::vector<std::string> targets;
    for (const Value& item : mounts->value.items) {
        if (!item.is_scalar())
            continue;  // the list's own error
        const auto mount = container_mount_from(item.text);
        if (!mount) {
            errors.push_back(error_at(item.at, "container.mounts", kMountForm));
            continue;
        }
        if (std::find(targets.begin(), targets.end(), mount->target) != targets.end())
            errors.push_back(error_at(item.at, "container.mounts",
                                      mount->target + " is mounted twice; remove one of the two"));
        targets.push_back(mount->target);
    }
}

void check_digest(const Value& section, const ContainerSpec& container,
                  std::vector<SpecError>& errors) {
    const Entry* entry = entry_of(section, "digest");
    if (entry == nullptr || container.digest.empty())
        return;
    const std::string in_image = digest_of_reference(container.image);
    if (!is_image_digest(container.digest))
        errors.push_back(error_at(entry->value.at, "container.digest",
                                  "expected sha256: and 64 hexadecimal digits, as `podman image "
                                  "inspect --format {{.Digest}}` or sha256sum prints them"));
    else if (!in_image.empty() && in_image != container.digest)
        errors.push_back(error_at(
            entry->value.at, "container.digest",
            "container.image has another digest, " + in_image + "; remove one of the two"));
}

void check_cuda_compat(const Value& section, const ContainerSpec& container,
                       std::vector<SpecError>& errors) {
    const Entry* entry = entry_of(section, "cuda_compat");
    if (entry == nullptr || container.cuda_compat.empty())
        return;
    if (!is_mount_path(container.cuda_compat))
        errors.push_back(error_at(entry->value.at, "container.cuda_compat",
                                  "expected the absolute path of a folder on each node, such as "
                                  "/usr/local/cuda-12.8/compat"));
    else if (container.runtime == "pyxis")
        errors.push_back(error_at(entry->value.at, "container.cuda_compat",
                                  "with pyxis, Slurm starts the image; remove it, and have "
                                  "enroot's hook of NVIDIA do it, or mount the folder and set "
                                  "LD_LIBRARY_PATH in trainer.env"));
}

}  // namespace

std::optional<ContainerMount> container_mount_from(std::string_view text) {
    auto parts = split(text, ':');
    ContainerMount mount;
    if (parts.size() > 1 && (parts.back() == "ro" || parts.back() == "rw")) {
        mount.writable = parts.back() == "rw";
        parts.pop_back();
    }
    if (parts.empty() || parts.size() > 2 ||
        !std::all_of(parts.begin(), parts.end(),
                     [](const auto& part) { return is_mount_path(part); }))
        return std::nullopt;
    mount.source = without_slash(parts.front());
    mount.target = without_slash(parts.back());
    return mount;
}

std::string pyxis_mounts(const std::vector<ContainerMount>& mounts) {
    std::vector<std::string> words;
    words.reserve(mounts.size());
    for (const ContainerMount& mount : mounts)
        words.push_back(mount.source + ':' + mount.target + (mount.writable ? ":rw" : ":ro"));
    return join(words, ",");
}

bool is_image_digest(std::string_view text) {
    return text.starts_with(kDigestKind) && text.size() == kDigestKind.size() + kDigestDigits &&
           std::all_of(text.begin() + kDigestKind.size(), text.end(),
                       [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string digest_of_reference(std::string_view image) {
    const std::size_t at = image.rfind('@');
    const std::string_view digest = at == image.npos ? "" : image.substr(at + 1);
    return is_image_digest(digest) ? std::string(digest) : std::string();
}

void check_container(const Value& root, ContainerSpec& container, std::vector<SpecError>& errors) {
    const Entry* section = root.find("container");
    if (section == nullptr || !section->value.is_mapping())
        return;
    if (const Entry* image = entry_of(section->value, "image"))
        container.image_at = image->value.at;
    check_runtime(section->value, errors);
    check_mounts(section->value, errors);
    check_digest(section->value, container, errors);
    check_cuda_compat(section->value, container, errors);
    const auto& entries = section->value.entries;
    const bool is_meant = std::any_of(entries.begin(), entries.end(), [](const Entry& entry) {
        return entry.key != "require_digest";  // the site's
    });
    if (container.image.empty() && entry_of(section->value, "image") == nullptr && is_meant)
        errors.push_back(error_at(section->key_at, "container",
                                  "needs image: what ranks are to run in, such as "
                                  "nvcr.io/nvidia/pytorch:25.01-py3 or /images/pytorch.sif"));
    if (container.image.starts_with('-'))
        errors.push_back(error_at(container.image_at, "container.image",
                                  "begins with -, as options of the runtime do"));
}

}  // namespace autolaunch::launcher
