#pragma once
#include "render/channels.hpp"
#include "render/rendered_file.hpp"

#include <vector>

namespace autolaunch::launcher {

/// Alertmanager's configuration: one message a job and alert, the root cause alone, to `channels`.
/// Secrets are in files that it names. For 0.25 and later. Pure.
std::vector<RenderedFile> alertmanager_files(const std::vector<AlertChannel>& channels);

}  // namespace autolaunch::launcher
