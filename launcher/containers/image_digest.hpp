#pragma once
#include "plan/container_choice.hpp"

namespace autolaunch::launcher {

/// Throws Error{invalid_argument} where the image's file has not the digest that the spec wants,
/// and Error{system} where it cannot be read. Reads all of it, at the disk's speed; does nothing
/// where the runtime itself looks for the digest.
void check_image_file(const ContainerChoice& choice);

}  // namespace autolaunch::launcher
