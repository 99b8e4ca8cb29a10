#include "cli/site_gate.hpp"

#include "alerts/alert_settings.hpp"
#include "at_rest/checkpoint_readers.hpp"
#include "base/text.hpp"
#include "secrets/json_text.hpp"
#include "site/site_checks.hpp"
#include "site/site_text.hpp"
#include "spec/container_words.hpp"
#include "spec/scalar.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

namespace {

// What is known of the job so far, from gate to gate.
struct GateState {
    JobClaim claim;
    std::shared_ptr<SiteRecord> record;
    std::function<void(const std::string&)> tell;
    std::function<void(const PolicyVerdict&)> decided;
};

void judge_so_far(const JobSite& site, GateState& state, bool last) {
    const PolicyVerdict verdict = site.judge(state.claim);
    keep_verdict(verdict, *state.record);
    if (state.decided && (last || !verdict.allowed))
        state.decided(verdict);
    require_allowed(verdict);
    for (const std::string& line : verdict.uncompared)
        if (last)
            state.tell(line);
}

void require_image_digest(const ContainerSpec& container, const SiteSettings& site,
                          std::vector<SpecError>& errors) {
    const SiteSetting* wanted = site.find("container.require_digest");
    if (wanted == nullptr || !boolean_from(wanted->value.text).value_or(false) ||
        container.image.empty() || !container.digest.empty() ||
        !digest_of_reference(container.image).empty())
        return;
    errors.push_back(error_at(
        container.image_at, "container.image",
        "container.require_digest is true (" + place_of(wanted->value.at) +
            "), and the image has no digest; add container.digest: sha256:… (`podman image inspect "
            "--format {{.Digest}} IMAGE`, or sha256sum of a file)"));
}

bool asks(const SiteSetting* setting) {
    return setting != nullptr && boolean_from(setting->value.text).value_or(false);
}

// A job may measure more often than the administrator wants, and not less often or not at all.
void require_measures(MonitoringSpec& monitoring, const SiteSettings& site,
                      std::vector<SpecError>& errors) {
    const SiteSetting* const nodes = site.find("system_monitoring.enabled");
    const SiteSetting* const jobs = site.find("job_monitoring.resource_usage_tracking");
    const SiteSetting* const asked = asks(nodes) ? nodes : jobs;
    if (!asks(asked))
        return;
    if (!monitoring.resource_tracking.value_or(true)) {
        SpecError error;
        error.key = "monitoring.resource_tracking";
        error.file = *asked->value.at.file;
        error.line = asked->value.at.line;
        error.message = "false is not what " + std::string(asked->rule->path) +
                        " asks for: true; leave the key out of the spec";
        errors.push_back(std::move(error));
        return;
    }
    monitoring.resource_tracking = true;
    const SiteSetting* const interval = site.find("system_monitoring.metrics_collection_interval");
    long long whole = 0;
    if (interval == nullptr || !parse_integer(interval->value.text, whole) || whole <= 0)
        return;
    const auto seconds = static_cast<double>(whole);
    if (monitoring.interval_seconds.value_or(seconds + 1) > seconds)
        monitoring.interval_seconds = seconds;
}

}  // namespace

StartGate gate_of(const JobSite& site, const JobSpec& spec, std::shared_ptr<SiteRecord> record,
                  const EnvironmentMap& environment, std::function<void(const std::string&)> tell,
                  std::function<void(const PolicyVerdict&)> decided) {
    if (!site.has_roles())
        return {};
    const auto state = std::make_shared<GateState>(
        GateState{claim_of_spec(spec, site.settings().action), std::move(record), std::move(tell),
                  std::move(decided)});
    set_time(state->claim, "");  // what Slurm has granted counts
    StartGate gate;
    gate.size = [&site, state, environment](int nodes, int gpus_per_node) {
        state->claim = claim_of_grant(state->claim, nodes, gpus_per_node, environment);
        judge_so_far(site, *state, !site.limits_time());
    };
    if (site.limits_time())
        gate.time_limit = [&site, state](const std::string& limit) {
            set_time(state->claim, limit);
            judge_so_far(site, *state, true);
        };
    return gate;
}

PolicyVerdict judge_plan(const JobSite& site, const LaunchPlan& plan,
                         const EnvironmentMap& environment) {
    const JobClaim asked = claim_of_spec(plan.spec, site.settings().action);
    const int nodes = plan.node_count + static_cast<int>(plan.spare_nodes.size());
    int gpus = plan.gpu_count;
    if (plan.saved_machine.empty())
        gpus = std::max(gpus, granted_gpus(plan.spec, environment));
    return site.judge(claim_of_grant(asked, nodes, gpus, environment));
}

void settle_with_site(JobSpec& spec, const Value& checkpoint_section, const JobSite& site,
                      std::vector<SpecError>& errors) {
    settle_readers(spec.checkpoint, checkpoint_section, errors);
    require_readers(spec.checkpoint, checkpoint_section, site.settings(), errors);
    require_image_digest(spec.container, site.settings(), errors);
    require_measures(spec.monitoring, site.settings(), errors);
    const SiteSetting* method = site.settings().find("authentication.method");
    spec.alerts = alerts::alerts_of(site.settings(), errors);
    spec.uses_kerberos = method != nullptr && is_kerberos(method->value.text);
}

std::string not_acted_on(const SiteRecord& record) {
    std::vector<std::string> names;
    for (const SiteKey& key : record.keys)
        if (key.state == kNotActedOn && key.file != record.file)
            names.push_back(key.key);
    if (names.empty())
        return {};
    return "this version does not act on " + join(names, ", ") +
           " (autolaunch plan says who could)";
}

std::string with_site(const std::string& text, const SiteRecord& record) {
    JsonText site(Secrets::mask, {});
    put_site(site, &record);
    auto document = nlohmann::ordered_json::parse(text);
    document["site"] = nlohmann::ordered_json::parse(site.text());
    return document.dump(2) + "\n";
}

}  // namespace autolaunch::launcher
