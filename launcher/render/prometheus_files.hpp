#pragma once
#include "render/alert_rules.hpp"
#include "render/rendered_file.hpp"

#include <vector>

namespace autolaunch::launcher {

/// Rules, promtool's tests of them, and a configuration that loads them: what is scraped and by
/// which labels a job and a node are known. Pure.
std::vector<RenderedFile> prometheus_files(const std::vector<AlertGroup>& groups);

}  // namespace autolaunch::launcher
