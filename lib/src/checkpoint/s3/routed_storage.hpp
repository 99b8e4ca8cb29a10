#pragma once
#include "checkpoint/storage/storage.hpp"

#include <memory>

namespace autolaunch {

/// Files and directories of this machine, and buckets for paths that start with "s3://", with the
/// environment's settings and credentials; a bucket is connected to at its first path, and can only
/// be read. Threads: any.
std::unique_ptr<Storage> make_routed_storage();

}  // namespace autolaunch
