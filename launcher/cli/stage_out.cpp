#include "cli/stage_out.hpp"

#include "cli/scratch_of_site.hpp"
#include "cli/spec_errors.hpp"
#include "site/site_file.hpp"
#include "spec/spec.hpp"
#include "stage_out/finish_beside.hpp"

namespace autolaunch::launcher {

int finish_stage_out(const CommandLine& line, const std::map<std::string, std::string>& environment,
                     const Screen& screen) {
    FinishRequest request{.scratch = line.gc.scratch,
                          .jobs = line.stage_out.jobs,
                          .only_list = line.stage_out.list,
                          .even_failed = line.stage_out.even_failed,
                          .may_overwrite = line.stage_out.overwrite,
                          .by_node = line.stage_out.layout == "node",
                          .discard = line.stage_out.discard,
                          .json = line.json};
    if (!line.spec_file.empty()) {
        const SpecResult result = load_spec({line.spec_file, {}, environment, {}, Secrets::mask});
        if (!result.errors.empty())
            return complain_of_spec(result.errors, screen);
        if (request.scratch.empty())
            request.scratch = scratch_of_spec(result.spec);
    }
    if (request.scratch.empty())
        request.scratch = scratch_of_site(read_site_file());
    return finish_beside(request, [&](const std::string& text) {
        line.json ? screen.print_json(text) : screen.print(text);
    });
}

}  // namespace autolaunch::launcher
