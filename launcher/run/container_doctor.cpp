#include "run/container_doctor.hpp"

#include "base/hostname.hpp"
#include "containers/choose_container.hpp"
#include "containers/container_facts.hpp"
#include "containers/container_probe.hpp"
#include "containers/image_digest.hpp"
#include "doctor/container_findings.hpp"
#include "doctor/verdict.hpp"
#include "exit_codes/exit_codes.hpp"
#include "exit_codes/exit_error.hpp"
#include "report/screen.hpp"

#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr char kOfSpec[] = "spec";

ContainerNeeds needs_of(const DoctorRequest& request) {
    ContainerNeeds needs{};
    needs.spec = request.spec.container;
    if (request.options.container != kOfSpec) {
        needs.spec.image = request.options.container;
        needs.spec.digest.clear();
    }
    if (needs.spec.image.empty())
        throw UsageError("--container spec: there is no container.image",
                         "autolaunch doctor -c train.yaml --container spec, or name an image");
    needs.uses_gpus = needs.uses_ports = true;
    return needs;
}

}  // namespace

int run_container_doctor(const DoctorRequest& request, const EnvironmentMap& environment) {
    const ContainerNeeds needs = needs_of(request);
    const ContainerFacts facts = read_container_facts(needs.spec, environment);
    const ContainerChoice choice = choose_container(needs, facts);
    if (!choice.wraps())
        throw UsageError("--container: with pyxis, Slurm starts the image",
                         "srun " + pyxis_options(needs.spec) + " autolaunch doctor");
    check_image_file(choice);
    ContainerProbe probe = probe_container(choice);
    const Verdict verdict =
        judge({judge_container(hostname(), {.said = std::move(probe.said),
                                            .trouble = probe.trouble,
                                            .driver = facts.nvidia_driver,
                                            .cuda_compat = choice.cuda_compat,
                                            .node_compat = facts.newest_compat,
                                            .has_amd = !facts.amd_nodes.empty(),
                                            .has_hcas = !facts.infiniband.empty(),
                                            .runtime = choice.runtime})});
    const Screen screen(environment);
    if (request.json)
        screen.print_json(verdict_json(verdict));
    else
        screen.print(verdict_screen(verdict, style_of_stdout()));
    if (verdict.has(Severity::fail))
        return exit_code::kUnfit;
    const bool warnings_count = request.options.fail_on == "warn" && verdict.has(Severity::warn);
    return warnings_count ? exit_code::kWarnings : exit_code::kSuccess;
}

}  // namespace autolaunch::launcher
