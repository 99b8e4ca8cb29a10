#pragma once
#include "render/rendered_file.hpp"

#include <vector>

namespace autolaunch::launcher {

/// A dashboard a file, as Grafana's provisioning reads them, and the provider that names their
/// folder. The source of data is a variable: whichever Prometheus the reader has. Pure.
std::vector<RenderedFile> grafana_files();

}  // namespace autolaunch::launcher
