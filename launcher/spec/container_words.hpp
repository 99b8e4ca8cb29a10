#pragma once
#include "spec/container_spec.hpp"
#include "spec/value.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A folder or file of the node that ranks see in their container.
struct ContainerMount {
    std::string source, target;
    bool writable = false;

    bool operator==(const ContainerMount&) const = default;
};

/// "/data", "/data:/mnt/data", "/scratch:rw", "/data:/mnt/data:ro": read-only unless it says rw.
/// Nothing for other text. Pure.
std::optional<ContainerMount> container_mount_from(std::string_view text);

/// "/data:/data:ro,/scratch:/scratch:rw", as pyxis' --container-mounts has them. Pure.
std::string pyxis_mounts(const std::vector<ContainerMount>& mounts);

/// "sha256:" and 64 hexadecimal digits. Pure.
bool is_image_digest(std::string_view text);

/// The digest in "registry/name@sha256:…"; empty: the reference has none. Pure.
std::string digest_of_reference(std::string_view image);

/// What the keys of `container` say together, and one by one; learns where the image is named.
/// Pure.
void check_container(const Value& root, ContainerSpec& container, std::vector<SpecError>& errors);

}  // namespace autolaunch::launcher
