#pragma once
#include <string>
#include <vector>

namespace autolaunch::launcher {

enum class RenderTarget { prometheus, alertmanager, grafana, slurm };

struct RenderRequest {
    RenderTarget target = RenderTarget::prometheus;
    std::vector<std::string> files;  ///< only these of the target's; empty: all
    std::string folder;              ///< empty: the texts themselves are the outcome
    bool overwrite = false;          ///< files in `folder` that have another content
    bool json = false;
    std::string site_file;  ///< a draft; empty: the administrator's own file
    std::string textfile_dir = "/var/lib/prometheus/node-exporter";
    std::string job_mapping_dir = "/run/autolaunch/gpu-jobs";
};

struct RenderOutcome {
    std::string text;  ///< for stdout: JSON where it was asked for
    std::vector<std::string> notes;
};

/// `autolaunch render TARGET`. Writes all files, or none where one of them would replace another
/// content. Throws Error.
RenderOutcome run_render_command(const RenderRequest& request);

}  // namespace autolaunch::launcher
