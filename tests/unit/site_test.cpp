// The administrator's file: what may stand in it, what a job may tighten, who enforces it and
// whether it holds.

#include "base/file_io.hpp"
#include "site/site_checks.hpp"
#include "site/site_file.hpp"
#include "site/site_merge.hpp"
#include "site/site_settings.hpp"
#include "site/site_text.hpp"
#include "spec/yaml_reader.hpp"
#include "spec_files.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace site_test {

using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

struct ReadSite {
    SiteSettings settings;
    std::vector<std::string> errors;
};

ReadSite read_site(const std::string& text, SiteSource source = SiteSource::administrator,
                   const std::string& file = "site.yaml") {
    std::vector<SpecError> errors;
    ReadSite read;
    read.settings = read_site_settings(read_yaml(text, file, errors), source, errors);
    for (const auto& error : errors)
        read.errors.push_back(to_string(error));
    return read;
}

std::string sample(const std::string& name) {
    return read_file(std::string(AUTOLAUNCH_SOURCE_DIR) + "/tests/data/site/" + name);
}

struct Tightened {
    SiteSettings settings;
    std::vector<std::string> errors;
};
Tightened tightened(const std::string& site, const std::string& job) {
    const ReadSite theirs = read_site(site), mine = read_site(job, SiteSource::job, "job.yaml");
    REQUIRE(theirs.errors == std::vector<std::string>{});
    REQUIRE(mine.errors == std::vector<std::string>{});
    std::vector<SpecError> errors;
    Tightened both{tighten(theirs.settings, mine.settings, errors), {}};
    for (const auto& error : errors)
        both.errors.push_back(to_string(error));
    return both;
}

std::string value_of(const SiteSettings& settings, const char* path) {
    const SiteSetting* setting = settings.find(path);
    return setting == nullptr ? "none" : site_value_text(*setting);
}

/// Of a machine and a cluster on which all that can hold does.
SiteFacts good_facts() {
    SiteFacts facts;
    facts.swaps = "Filename\tType\tSize\tUsed\tPriority\n";
    facts.overcommit = "2\n";
    facts.panic_on_oom = "0\n";
    facts.slurm = {{"ClusterName", "c"},
                   {"SLURM_VERSION", "22.05.8"},
                   {"PreemptType", "preempt/qos"},
                   {"AccountingStorageEnforce", "associations,limits,qos"},
                   {"SelectType", "select/cons_tres"},
                   {"SelectTypeParameters", "CR_CORE"},
                   {"TaskPlugin", "task/affinity,task/cgroup"}};
    facts.has_folder = [](const std::string& path) { return path == "/shared" || path == "/tmp"; };
    return facts;
}

std::vector<std::string> states(const SiteSettings& settings, const SiteFacts& facts,
                                const std::string& key) {
    std::vector<std::string> found;
    for (const SiteKey& line : check_site(settings, facts))
        if (line.key == key)
            found.push_back(line.enforced_by + ": " + line.state);
    return found;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("files as people have them are read, with every key") {
    const ReadSite security = read_site(sample("security.yaml")),
                   monitoring = read_site(sample("monitoring.yaml")),
                   more = read_site(sample("more.yaml"));
    CHECK(security.errors == Lines{});
    CHECK(monitoring.errors == Lines{});
    CHECK(more.errors == Lines{});
    CHECK(security.settings.settings.size() + monitoring.settings.settings.size() +
              more.settings.settings.size() ==
          site_keys().size());
    REQUIRE(security.settings.roles.size() == 2);
    const SiteRole& role = security.settings.roles[0];
    CHECK(role.name == "engineers");
    CHECK(role.max_gpus->value == 8);
    CHECK(role.max_memory->value == 512'000'000'000);
    CHECK(role.max_time->value == std::chrono::hours(24));
    CHECK(place_of(role.max_gpus->at) == "site.yaml:13");
    CHECK(security.settings.has_roles());
}

TEST_CASE("sections at the top and below a wing are the same, and so are other names of keys") {
    for (const char* text :
         {"authorization: {rbac_enabled: true, user_groups: [{name: a, max_gpus: 2}]}",
          "security: {authorization: {rbac_enabled: true, user_groups: [{name: a, "
          "resource_limits: {max_gpus: 2}}]}}",
          "rbac: {enabled: true, roles: {a: {max_gpus: 2}}}"}) {
        const ReadSite read = read_site(text);
        CHECK(read.errors == Lines{});
        REQUIRE(read.settings.roles.size() == 1);
        CHECK(read.settings.roles[0].max_gpus->value == 2);
        CHECK(read.settings.has_roles());
    }
    CHECK(read_site("rbac: {roles: {a: {max_runtime: 1-12}}}").settings.roles[0].max_time->value ==
          std::chrono::hours(36));
    CHECK_FALSE(read_site("rbac: {enabled: false, roles: {a: {}}}").settings.has_roles());
}

TEST_CASE("what is wrong is said with its line, its key and what to write") {
    const auto wrong = [](const std::string& text) { return read_site(text).errors; };
    CHECK(wrong("adit: {enabled: true}") ==
          Lines{"site.yaml:1:1: adit: unknown section; did you mean \"audit\"?"});
    CHECK(wrong("audit: {enable: true}") ==
          Lines{"site.yaml:1:9: audit.enable: unknown key; did you mean \"enabled\"?"});
    CHECK(wrong("audit: {enabled: \"true\"}") ==
          Lines{"site.yaml:1:18: audit.enabled: expected true or false; found \"true\""});
    CHECK(wrong("audit: {log_retention_days: -1}") ==
          Lines{"site.yaml:1:29: audit.log_retention_days: expected a whole number >= 0; found "
                "\"-1\""});
    CHECK(wrong("audit: {enabled: true}\nsecurity: {audit: {enabled: true}}") ==
          Lines{"site.yaml:2:20: security.audit.enabled: is said twice: site.yaml:1 has it "
                "already"});
    CHECK(wrong("include: other.yaml").size() == 1);
    const auto role = [&](const std::string& text) {
        return wrong("rbac: {roles: {a: {" + text + "}}}");
    };
    CHECK(role("max_gpus: \"${N}\"").at(0).find("expected a whole number >= 0; found \"${N}\"") !=
          std::string::npos);
    CHECK(role("max_time: 24").at(0).find("expected a time such as 24h") != std::string::npos);
    CHECK(role("max_memory: 512").at(0).find("expected a size such as 512GB") != std::string::npos);
    CHECK(role("max_gpu: 8").at(0).find("did you mean \"max_gpus\"?") != std::string::npos);
    CHECK(role("max_time: 2h, max_runtime: 3h").at(0).find("is said twice") != std::string::npos);
    CHECK(wrong("rbac: {roles: [{max_gpus: 1}]}").at(0).find("a role needs a name") !=
          std::string::npos);
    CHECK(wrong("rbac: {roles: [{name: a}, {name: a}]}").at(0).find("there is a role a at") !=
          std::string::npos);
}

TEST_CASE("whom to ask is the administrator's, what the job does is the job's") {
    CHECK(read_site("contact: me@x").settings.contact == "me@x");
    CHECK(read_site("contact: me@x", SiteSource::job).errors.size() == 1);
    CHECK(read_site("authorization: {action: validate}", SiteSource::job).settings.action ==
          "validate");
    CHECK(read_site("authorization: {action: validate}").errors.size() == 1);
}

TEST_CASE("a job tightens, each kind of key its way, and its own line counts then") {
    const std::string site =
        "audit: {log_level: INFO, log_retention_days: 90, events_to_log: [a, b]}\n"
        "data_security: {data_isolation: false}\n"
        "storage_management: {retention_days: 7}\n"
        "network_security: {firewall_rules: [{port: 1}, {port: 2}]}\n";
    const Tightened both =
        tightened(site,
                  "audit: {log_level: DEBUG, log_retention_days: 100, events_to_log: [b, c, a]}\n"
                  "security: {data_security: {data_isolation: yes, encryption_at_rest: false},\n"
                  "           network_security: {firewall_rules: [{port: 2}]}}\n"
                  "resource_management: {storage_management: {retention_days: 3}}\n");
    CHECK(both.errors == Lines{});
    CHECK(value_of(both.settings, "audit.log_level") == "DEBUG");
    CHECK(value_of(both.settings, "audit.log_retention_days") == "100");
    CHECK(value_of(both.settings, "storage_management.retention_days") == "3");
    CHECK(value_of(both.settings, "network_security.firewall_rules") == "1 entry");
    CHECK(value_of(both.settings, "data_security.encryption_at_rest") == "false");  // left open
    CHECK(place_of(both.settings.find("data_security.data_isolation")->value.at) == "job.yaml:2");
}

TEST_CASE("a job that loosens is refused with both lines") {
    const auto refused = [](const std::string& site, const std::string& job) {
        const Lines errors = tightened(site, job).errors;
        return errors.size() == 1 ? errors[0] : std::to_string(errors.size()) + " errors";
    };
    CHECK(refused("\naudit: {enabled: true}", "audit: {enabled: false}") ==
          "job.yaml:1:18: audit.enabled: false is not what the administrator allows: true "
          "(site.yaml:2); a job may turn it on, not off");
    CHECK(refused("audit: {log_retention_days: 90}", "audit: {log_retention_days: 89}") ==
          "job.yaml:1:29: audit.log_retention_days: 89 is not what the administrator allows: 90 "
          "(site.yaml:1); a job may make it larger, not smaller");
    CHECK(refused("audit: {events_to_log: [a, b]}", "audit: {events_to_log: [a]}")
              .find("not leave any out") != std::string::npos);
    CHECK(refused("audit: {log_level: INFO}", "audit: {log_level: ERROR}")
              .find("a job may log more") != std::string::npos);
    CHECK(refused("storage_management: {retention_days: 7}",
                  "storage_management: {retention_days: 8}")
              .find("smaller, not larger") != std::string::npos);
    CHECK(refused("memory_management: {swap_enabled: false}",
                  "memory_management: {swap_enabled: true}")
              .find("a job cannot change it") != std::string::npos);
    CHECK(
        refused("storage_management: {shared_cache: /a}", "storage_management: {shared_cache: /b}")
            .find("a job cannot change it") != std::string::npos);
    CHECK(tightened("storage_management: {shared_cache: /a}",
                    "storage_management: {shared_cache: /a}")
              .errors == Lines{});
    // Nor where the administrator says nothing: what is believed there is his word.
    CHECK(refused("audit: {enabled: true}", "storage_management: {shared_cache_owner: me}") ==
          "job.yaml:1:42: storage_management.shared_cache_owner: is the administrator's to say, in "
          "his file; a job cannot");
    CHECK(refused("network_security: {firewall_rules: [{port: 1}]}",
                  "network_security: {firewall_rules: [{port: 1}, {port: 22}]}")
              .find("not add any") != std::string::npos);
    CHECK(refused("rbac: {enabled: true, roles: {}}", "rbac: {enabled: false}")
              .find("authorization.rbac_enabled: false") != std::string::npos);
}

TEST_CASE("roles are tightened limit by limit, and none is added") {
    const std::string site =
        "rbac: {roles: {a: {permissions: [train, export], max_gpus: 8, max_time: 24h}}}";
    const auto with = [&](const std::string& role) {
        return tightened(site, "rbac: {roles: {" + role + "}}");
    };
    const Tightened smaller = with("a: {permissions: [train], max_gpus: 4, max_memory: 1GB}");
    CHECK(smaller.errors == Lines{});
    CHECK(smaller.settings.roles[0].max_gpus->value == 4);
    CHECK(smaller.settings.roles[0].max_time->value == std::chrono::hours(24));
    CHECK(smaller.settings.roles[0].max_memory->value == 1'000'000'000);
    CHECK(smaller.settings.roles[0].permissions->value == Lines{"train"});
    CHECK(with("a: {max_gpus: 8}").errors == Lines{});
    CHECK(with("a: {max_gpus: 9}").errors ==
          Lines{"job.yaml:1:30: authorization.user_groups.a.max_gpus: 9 is not what the "
                "administrator allows: 8 (site.yaml:1); a job may make it smaller, not larger"});
    CHECK(with("a: {max_time: 25h}").errors.size() == 1);
    CHECK(with("a: {permissions: [train, delete]}").errors.size() == 1);
    CHECK(with("mine: {max_gpus: 64}").errors.size() == 1);
    // Where the administrator says nothing of roles, a job's own are a limit as good as any.
    CHECK(tightened("audit: {enabled: true}", "rbac: {roles: {mine: {max_gpus: 1}}}")
              .settings.roles.size() == 1);
}

TEST_CASE("what can hold is said to hold, by whom and by what") {
    const SiteSettings security = read_site(sample("security.yaml")).settings,
                       monitoring = read_site(sample("monitoring.yaml")).settings;
    const SiteFacts facts = good_facts();
    const auto of = [&](const std::string& key) {
        Lines lines = states(security, facts, key);
        const Lines more = states(monitoring, facts, key);
        lines.insert(lines.end(), more.begin(), more.end());
        return lines;
    };
    CHECK(of("memory_management.swap_enabled") == Lines{"the kernel: holds"});
    CHECK(of("memory_management.memory_overcommit") == Lines{"the kernel: holds"});
    CHECK(of("memory_management.oom_killer_enabled") == Lines{"the kernel: holds"});
    CHECK(of("gpu_scheduling.scheduler") == Lines{"Slurm: holds"});
    CHECK(of("gpu_scheduling.allocation_strategy") == Lines{"Slurm: holds"});
    CHECK(of("gpu_scheduling.preemption_enabled") == Lines{"Slurm: holds"});
    CHECK(of("authorization.rbac_enabled") == Lines{"autolaunch: holds", "Slurm: holds"});
    CHECK(of("authorization.user_groups.engineers.max_gpus") == Lines{"Slurm: holds"});
    CHECK(of("network_security.encrypted_communication") ==
          Lines{"autolaunch: holds", "nobody: does not hold"});
    CHECK(of("data_security.encryption_at_rest") == Lines{"autolaunch: holds", "nobody: unknown"});
    CHECK(of("data_security.audit_logging") == Lines{"autolaunch: holds"});
    CHECK(of("audit.enabled") == Lines{"autolaunch: holds"});
    CHECK(of("audit.log_level") == Lines{"nobody: not acted on"});
    CHECK(of("authentication.method") == Lines{"nobody: unknown", "autolaunch: holds"});
    CHECK(of("storage_management.shared_filesystem") == Lines{"the kernel: holds"});
}

TEST_CASE("data_isolation: who is let in, and which of two values lets in fewer") {
    const auto of = [](const char* word) {
        std::vector<SpecError> errors;
        Value value;
        value.text = word;
        value.kind = Value::Kind::scalar;
        value.plain = true;
        return isolation_from(value);
    };
    CHECK(of("true") == Isolation::group);
    CHECK(of("group") == Isolation::group);
    CHECK(of("private") == Isolation::only_owner);
    CHECK(of("false") == Isolation::none);
    CHECK(!of("everybody"));
}

TEST_CASE("what does not hold names the line to change, and what cannot be read is not guessed") {
    const SiteSettings monitoring = read_site(sample("monitoring.yaml")).settings,
                       security = read_site(sample("security.yaml")).settings;
    SiteFacts bad = good_facts();
    bad.swaps = "Filename\tType\tSize\tUsed\tPriority\n/dev/sda2\tpartition\t1\t0\t-2\n";
    bad.overcommit = "0\n";
    bad.panic_on_oom = "2\n";
    bad.slurm->at("PreemptType") = "preempt/none";
    bad.slurm->at("AccountingStorageEnforce") = "none";
    bad.slurm->at("SelectTypeParameters") = "CR_CORE,CR_LLN";
    bad.slurm->at("TaskPlugin") = "task/none";
    bad.has_folder = [](const std::string&) { return false; };
    std::string said;
    for (const auto* settings : {&monitoring, &security})
        for (const SiteKey& key : check_site(*settings, bad))
            if (key.state == std::string(kDoesNotHold))
                said += key.key + ": " + key.why + "\n";
    for (const char* text :
         {"swap_enabled: this node swaps to /dev/sda2: swapoff -a, and its line in /etc/fstab",
          "memory_overcommit: vm.overcommit_memory is 0: a line in /etc/sysctl.d, "
          "vm.overcommit_memory = 2",
          "oom_killer_enabled: vm.panic_on_oom is 2: a line in /etc/sysctl.d, vm.panic_on_oom = 0",
          "preemption_enabled: PreemptType=preempt/none: slurm.conf needs PreemptType=preempt/qos",
          "rbac_enabled: AccountingStorageEnforce is none: slurm.conf needs "
          "AccountingStorageEnforce=associations,limits,qos",
          "allocation_strategy: ",
          "data_isolation: TaskPlugin=task/none: slurm.conf needs "
          "TaskPlugin=task/cgroup",
          "shared_filesystem: this node has no folder /shared: mount it"})
        CHECK_MESSAGE(said.find(text) != std::string::npos, text, " is not in\n", said);
    for (const auto* settings : {&monitoring, &security})
        for (const SiteKey& key : check_site(*settings, SiteFacts{}))
            if (key.enforced_by == std::string(kByKernel) ||
                key.enforced_by == std::string(kBySlurm))
                CHECK_MESSAGE(key.state == std::string(kUnknown), key.key, ": ", key.why);
}

TEST_CASE("scontrol's configuration is read by names") {
    const auto config = parse_slurm_config(
        "Configuration data as of 2026-11-24T18:00:00\nPreemptType             = preempt/qos\n"
        "SLURM_VERSION           = 22.05.8\nNodeFeaturesPlugins     = \n\nSlurmctld(primary) at "
        "head is UP\n");
    CHECK(config.at("PreemptType") == "preempt/qos");
    CHECK(config.at("SLURM_VERSION") == "22.05.8");
}

TEST_CASE(
    "a spec has the sections where people write them, untouched by variables and the trainer") {
    const SpecFiles files;
    files.write("security.yaml", sample("security.yaml"));
    files.write("monitoring.yaml", sample("monitoring.yaml"));
    files.write("more.yaml", sample("more.yaml"));
    files.write(
        "t.yaml",
        "include: [security.yaml, monitoring.yaml, more.yaml]\ntrainer: {command: [/bin/true]}\n"
        "monitoring: {log_path: runs}\n");
    const SpecResult result = files.load("t.yaml");
    CHECK(lines_of(result) == Lines{});
    CHECK(nlohmann::json::parse(result.spec.trainer_config) == nlohmann::json::object());
    std::vector<SpecError> errors;
    const SiteSettings settings = read_site_settings(result.site, SiteSource::job, errors);
    CHECK(errors.empty());
    CHECK(settings.settings.size() == site_keys().size());
    CHECK(place_of(settings.find("audit.enabled")->value.at) ==
          files.path("security.yaml") + ":40");
    CHECK(value_of(settings, "authorization.rbac_enabled") == "true");
    // A section with a _target_ is the trainer's, as everywhere.
    const SpecResult theirs = load_text("audit: {_target_: pkg.Audit}");
    CHECK(theirs.site.entries.empty());
    CHECK(nlohmann::json::parse(theirs.spec.trainer_config).contains("audit"));
}

TEST_CASE("every key is told in the table and in JSON, secrets as ***") {
    SiteRecord record{"site.yaml", {}, "allowed: role a", {"a note"}};
    record.keys = check_site(read_site(sample("monitoring.yaml")).settings, good_facts());
    const std::string table = site_table(record);
    for (const SiteKeyRule& rule : site_keys())
        if (rule.path.starts_with("alerting.") || rule.path.starts_with("dashboards."))
            CHECK(table.find(rule.path) != std::string::npos);
    CHECK(table.find("site.yaml:4") != std::string::npos);
    CHECK(table.find("roles: allowed: role a") != std::string::npos);
    JsonText json(Secrets::mask, {});
    put_site(json, &record);
    const auto parsed = nlohmann::json::parse(json.text());
    CHECK(parsed["keys"][0]["line"] == record.keys[0].line);
    CHECK(parsed["decision"] == "allowed: role a");
}

TEST_CASE("docs/site.md has every key, and who could do what this version does not") {
    const std::string document = read_file(std::string(AUTOLAUNCH_SOURCE_DIR) + "/docs/site.md");
    for (const SiteKeyRule& rule : site_keys())
        CHECK_MESSAGE(document.find("| `" + std::string(rule.path) + "` |") != std::string::npos,
                      "docs/site.md lacks ", std::string(rule.path));
}

TEST_CASE("only what root alone can have written counts") {
    const SpecFiles files;
    const std::string file = files.write("site.yaml", "audit: {enabled: true}");
    CHECK(why_not_roots_own(file) != "");  // all may write in the folder for temporary files
    CHECK(why_not_roots_own("/proc/sys/kernel/ostype") == "");
    CHECK(why_not_roots_own("/proc/self/exe") != "");
    CHECK(why_not_roots_own("/dev/null").find("not a file") != std::string::npos);
}

}  // namespace site_test
