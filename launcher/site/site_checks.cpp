#include "site/site_checks.hpp"

#include "base/text.hpp"
#include "site/audit_kinds.hpp"
#include "site/site_vault.hpp"
#include "spec/scalar.hpp"

#include <strings.h>

#include <algorithm>

namespace autolaunch::launcher {

namespace {

struct Finding {
    const char* enforced_by;
    const char* state;
    std::string why;
};
using Findings = std::vector<Finding>;

bool is_true(const Value& value) { return boolean_from(value.text).value_or(false); }

std::string unread(const char* path) { return std::string(path) + " cannot be read"; }

Findings check_swap(const Value& value, const SiteFacts& facts) {
    if (!facts.swaps)
        return {{kByKernel, kUnknown, unread("/proc/swaps")}};
    auto lines = split(trim(*facts.swaps), '\n');
    const bool swaps = lines.size() > 1;  // the first is the header
    const std::string first = swaps ? lines[1].substr(0, lines[1].find_first_of(" \t")) : "";
    if (swaps == is_true(value))
        return {{kByKernel, kHolds, swaps ? "/proc/swaps has " + first : "/proc/swaps is empty"}};
    return {{kByKernel, kDoesNotHold,
             swaps ? "this node swaps to " + first + ": swapoff -a, and its line in /etc/fstab"
                   : "this node has no swap: mkswap and swapon, and a line in /etc/fstab"}};
}

Findings check_overcommit(const Value& value, const SiteFacts& facts) {
    if (!facts.overcommit)
        return {{kByKernel, kUnknown, unread("/proc/sys/vm/overcommit_memory")}};
    const std::string mode(trim(*facts.overcommit));
    const std::string is = "vm.overcommit_memory is " + mode;
    if ((mode != "2") == is_true(value))
        return {{kByKernel, kHolds, is}};
    return {
        {kByKernel, kDoesNotHold,
         is + ": a line in /etc/sysctl.d, vm.overcommit_memory = " + (is_true(value) ? "0" : "2")}};
}

Findings check_oom_killer(const Value& value, const SiteFacts& facts) {
    if (!facts.panic_on_oom)
        return {{kByKernel, kUnknown, unread("/proc/sys/vm/panic_on_oom")}};
    const std::string mode(trim(*facts.panic_on_oom));
    const std::string is = "vm.panic_on_oom is " + mode;
    if (!is_true(value))
        return {{kByKernel, kDoesNotHold,
                 is + ": Linux cannot go on without it; with vm.overcommit_memory = 2 it is seldom "
                      "needed"}};
    if (mode == "0")
        return {{kByKernel, kHolds, is}};
    return {{kByKernel, kDoesNotHold, is + ": a line in /etc/sysctl.d, vm.panic_on_oom = 0"}};
}

std::string slurm_value(const SiteFacts& facts, const std::string& key) {
    const auto found = facts.slurm->find(key);
    return found == facts.slurm->end() ? std::string() : found->second;
}

bool has_word(const std::string& list, const std::string& word) {
    const auto words = split(list, ',');
    return std::any_of(words.begin(), words.end(),
                       [&](const std::string& one) { return trim(one) == word; });
}

Findings check_rbac(const Value& value, const SiteFacts& facts) {
    if (value.is_scalar() && !is_true(value))
        return {{kByNobody, kHolds, "no roles are applied"}};
    Findings findings = {{kByUs, kHolds,
                          "at a start, validate and plan; who starts a program without autolaunch "
                          "is not asked"}};
    if (!facts.slurm) {
        findings.push_back({kBySlurm, kUnknown, facts.why_no_slurm});
        return findings;
    }
    const std::string enforced = slurm_value(facts, "AccountingStorageEnforce");
    if (has_word(enforced, "limits") && has_word(enforced, "qos"))
        findings.push_back({kBySlurm, kHolds,
                            "AccountingStorageEnforce=" + enforced +
                                "; autolaunch policy diff compares the limits"});
    else
        findings.push_back({kBySlurm, kDoesNotHold,
                            "AccountingStorageEnforce is " + enforced +
                                ": slurm.conf needs "
                                "AccountingStorageEnforce=associations,limits,qos; autolaunch "
                                "policy render slurm writes the rest"});
    return findings;
}

Findings check_preemption(const Value& value, const SiteFacts& facts) {
    if (!facts.slurm)
        return {{kBySlurm, kUnknown, facts.why_no_slurm}};
    const std::string type = slurm_value(facts, "PreemptType");
    const std::string is = "PreemptType=" + type;
    if ((type != "preempt/none" && !type.empty()) == is_true(value))
        return {{kBySlurm, kHolds, is}};
    return {{kBySlurm, kDoesNotHold,
             is + ": slurm.conf needs PreemptType=" +
                 (is_true(value) ? "preempt/qos and PreemptMode=REQUEUE" : "preempt/none")}};
}

Findings check_scheduler(const Value& value, const SiteFacts& facts) {
    if (value.text != "slurm")
        return {{kByNobody, kUnknown, "only Slurm can be asked from here"}};
    if (!facts.slurm)
        return {{kBySlurm, kUnknown, facts.why_no_slurm}};
    return {{kBySlurm, kHolds,
             "cluster " + slurm_value(facts, "ClusterName") + ", Slurm " +
                 slurm_value(facts, "SLURM_VERSION")}};
}

Findings check_strategy(const Value& value, const SiteFacts& facts) {
    if (!facts.slurm)
        return {{kBySlurm, kUnknown, facts.why_no_slurm}};
    const std::string type = slurm_value(facts, "SelectType"),
                      parameters = slurm_value(facts, "SelectTypeParameters");
    const std::string is = "SelectType=" + type + " SelectTypeParameters=" + parameters;
    const bool spreads = has_word(parameters, "CR_LLN");
    if (value.text == "best_fit" || value.text == "least_loaded") {
        const bool fits = type.starts_with("select/cons_") && spreads == (value.text != "best_fit");
        if (fits)
            return {{kBySlurm, kHolds, is}};
        return {{kBySlurm, kDoesNotHold,
                 is + ": slurm.conf needs SelectType=select/cons_tres and SelectTypeParameters " +
                     (value.text == "best_fit" ? "without CR_LLN" : "with CR_LLN")}};
    }
    return {{kBySlurm, kUnknown,
             is + " is what Slurm goes by; best_fit and least_loaded can be "
                  "compared with it"}};
}

Findings check_login(const SiteSetting& setting, const SiteFacts& facts) {
    std::string why =
        "PAM and sshd decide who logs in, and Slurm trusts MUNGE; not known from here";
    if (setting.rule->path == "authentication.realm" && facts.krb5_conf)
        why += facts.krb5_conf->find(setting.value.text) != std::string::npos
                   ? "; /etc/krb5.conf has that realm"
                   : "; /etc/krb5.conf does not have that realm";
    Findings findings = {{kByNobody, kUnknown, why}};
    if (setting.rule->path == "authentication.method" && is_kerberos(setting.value.text))
        findings.push_back(
            {kByUs, kHolds,
             "a start looks at the Kerberos ticket, warns where it is shorter than the job, and "
             "renews it while the job runs; a ticket is not what lets anybody start"});
    return findings;
}

Findings check_on_the_way(const Value& value) {
    if (!is_true(value))
        return {{kByUs, kHolds, "agents talk TLS 1.3 anyway"}};
    return {{kByUs, kHolds, "between agents, and for files handed from node to node: TLS 1.3"},
            {kByNobody, kDoesNotHold,
             "NCCL, gloo and c10d's store send in the clear: a network of the job's own "
             "(autolaunch policy render nftables), WireGuard, IPsec or MACsec between the nodes; "
             "rendezvous.store: node sends the store by TLS"}};
}

Findings check_at_rest(const Value& value, const SiteFacts& facts) {
    if (!is_true(value))
        return {{kByNobody, kHolds, "nothing is encrypted for it"}};
    const std::string refusal =
        "the library writes no checkpoint without recipients, and a spec that saves some and names "
        "none in checkpoint.recipients is refused";
    const std::string readers =
        facts.recipients.value_or(0) > 0
            ? "; this job's are encrypted for " + std::to_string(*facts.recipients)
            : "";
    return {{kByUs, kHolds, refusal + readers},
            {kByNobody, kUnknown,
             "what a trainer writes by itself (torch.save), logs and data are written as they are; "
             "what a file system encrypts below cannot be known from here"}};
}

Findings check_isolation(const Value& value, const SiteFacts& facts) {
    const Isolation wanted = isolation_from(value).value_or(Isolation::none);
    if (wanted == Isolation::none)
        return {{kByNobody, kHolds, "nothing is done for it"}};
    Findings findings = {
        {kByUs, kHolds,
         wanted == Isolation::only_owner
             ? "run directories and checkpoints are 0700, and one that is there and lets others "
               "in is refused"
             : "run directories and checkpoints are 0750 at most, and one that is there and lets "
               "the world in is refused"}};
    if (!facts.slurm) {
        findings.push_back({kBySlurm, kUnknown, facts.why_no_slurm});
    } else {
        const std::string plugins = slurm_value(facts, "TaskPlugin");
        const bool cgroups = has_word(plugins, "task/cgroup");
        findings.push_back(
            {kBySlurm, cgroups ? kUnknown : kDoesNotHold,
             "TaskPlugin=" + plugins +
                 (cgroups ? ": GPUs and memory are each job's own where cgroup.conf says "
                            "ConstrainDevices=yes and ConstrainRAMSpace=yes"
                          : ": slurm.conf needs TaskPlugin=task/cgroup, and cgroup.conf "
                            "ConstrainDevices=yes")});
    }
    return findings;
}

Findings check_audit_words(const Value& value) {
    std::vector<std::string> unknown;
    for (const Value& word : value.items)
        if (kinds_of_word(word.text).empty())
            unknown.push_back(word.text);
    Findings findings = {
        {kByUs, kHolds, "only these are recorded, with what the trail needs itself"}};
    if (!unknown.empty())
        findings.push_back(
            {kByNobody, kNotActedOn,
             join(unknown, ", ") + ": autolaunch sees no such event; there are " +
                 join(std::vector<std::string>(audit_kinds().begin(), audit_kinds().end()), ", ")});
    return findings;
}

// Of a trail that is a user's own file: what it proves is what somebody else keeps of it.
Findings check_audit(const SiteSetting& setting, const SiteFacts& facts) {
    const std::string_view key = setting.rule->path;
    const Value& value = setting.value;
    if (key == "audit.events_to_log")
        return check_audit_words(value);
    if (key == "audit.log_retention_days")
        return {{kByUs, kHolds,
                 "older files of a trail are deleted, younger never; journald and a "
                 "bucket go by their own"}};
    if (key == "audit.directory") {
        const auto there = facts.has_folder ? facts.has_folder(value.text) : std::nullopt;
        if (!there)
            return {{kByUs, kUnknown, value.text + " cannot be looked at"}};
        if (!*there)
            return {
                {kByUs, kDoesNotHold,
                 "there is no folder " + value.text + ": install -d -m 3733 -g adm " + value.text}};
        return {{kByUs, kHolds, "each user's trails are in his own folder there"}};
    }
    if (key == "audit.anchor")
        return {{kByUs, kHolds,
                 value.text == "journald"
                     ? "each line goes to journald, whose files are root's"
                     : "heads go there; autolaunch audit verify says whether they "
                       "are locked"}};
    if (!is_true(value))
        return {{kByNobody, kHolds, "nothing is recorded for it"}};
    if (key == "audit.required")
        return {{kByUs, kHolds,
                 "without its trail a job does not start, and one that runs is "
                 "stopped (73)"}};
    return {{kByUs, kHolds,
             "what is done with autolaunch is recorded; what a user does without it is not, and "
             "his file proves nothing without an anchor (autolaunch audit verify)"}};
}

Findings check_folder(const Value& value, const SiteFacts& facts) {
    const auto there = facts.has_folder ? facts.has_folder(value.text) : std::nullopt;
    if (!there)
        return {{kByKernel, kUnknown, value.text + " cannot be looked at"}};
    if (!*there)
        return {{kByKernel, kDoesNotHold, "this node has no folder " + value.text + ": mount it"}};
    return {
        {kByKernel, kHolds, "the folder is there on this node; whether it is shared is not asked"}};
}

Findings check_shared_cache(const SiteSetting& setting, const SiteFacts& facts) {
    if (setting.rule->path.ends_with("_owner"))
        return {{kByUs, kHolds, "jobs use what this user alone can have put there"}};
    const std::string& folder = setting.value.text;
    const auto there = facts.has_folder ? facts.has_folder(folder) : std::nullopt;
    if (!folder.starts_with('/'))
        return {{kByUs, kDoesNotHold, folder + " is no absolute path"}};
    if (!there.value_or(true))
        return {{kByUs, kHolds,
                 "this node has no folder " + folder +
                     " yet: `autolaunch stage-in --shared` by its owner makes it"}};
    return {{kByUs, kHolds,
             "jobs look there first; what another user than its owner could have written is not "
             "used, and a line of the job says so"}};
}

Findings check_logs(const SiteSetting& setting) {
    const bool steps = setting.rule->path.ends_with("performance_tracking");
    if (!is_true(setting.value))
        return {{kByUs, kDoesNotHold,
                 "logs and events are kept anyway, in the run directory, which is the user's own"}};
    return {{kByUs, kHolds,
             steps
                 ? "steps that a trainer reports are in events.jsonl; autolaunch report shows them"
                 : "output and events of each rank are in the run directory"}};
}

// Of what people write there, what each node measures, by how it begins.
bool is_measured(std::string_view word) {
    for (const char* known : {"cpu", "mem", "gpu", "disk", "storage", "io", "file", "net",
                              "infiniband", "temp", "power", "load", "pressure"})
        if (word.starts_with(known))
            return true;
    return false;
}

Findings check_measured(const SiteSetting& setting) {
    const std::string path(setting.rule->path);
    if (path.ends_with("metrics_to_collect")) {
        std::vector<std::string> unknown;
        for (const Value& word : setting.value.items)
            if (!is_measured(word.text))
                unknown.push_back(word.text);
        if (!unknown.empty())
            return {{kByUs, kDoesNotHold, "nothing is measured for " + join(unknown, ", ")}};
    } else if (path.ends_with("enabled") || path.ends_with("tracking")) {
        if (!is_true(setting.value))
            return {{kByUs, kHolds, "a job is measured where its spec asks for it"}};
    }
    return {{kByUs, kHolds,
             "each node measures itself while a job runs: samples in its run directory, and what "
             "Prometheus reads where the spec says so (docs/metrics.md)"}};
}

// Whether anybody is told is known when it is tried: a login node need not reach a mail server.
Findings check_alerts(const SiteSetting& setting) {
    if (setting.rule->path == "alerting.enabled" && !is_true(setting.value))
        return {{kByUs, kHolds, "no alert of a job is told to anybody"}};
    return {{kByUs, kHolds,
             "the head of each job looks at its own, and tells; a channel that is dead is a "
             "warning of the job"}};
}

Findings check_vault(const SiteSetting& setting) {
    const std::string& text = setting.value.text;
    if (setting.rule->path == "vault.address" && !is_safe_vault_address(text))
        return {{kByUs, kDoesNotHold,
                 "secrets are asked for by https, and by http on this machine alone"}};
    if (setting.rule->path == "vault.auth.method" && !is_vault_method(text))
        return {{kByUs, kDoesNotHold, "there are token, approle and jwt"}};
    return {{kByUs, kHolds,
             "for secrets.*.vault where VAULT_ADDR, VAULT_NAMESPACE and VAULT_TOKEN are not set"}};
}

Findings check(const SiteSetting& setting, const SiteFacts& facts) {
    const Value& value = setting.value;
    switch (setting.rule->check) {
        case SiteCheck::none:
            return {{kByNobody, kNotActedOn, std::string(setting.rule->why_not)}};
        case SiteCheck::login:
            return check_login(setting, facts);
        case SiteCheck::rbac:
            return check_rbac(value, facts);
        case SiteCheck::encryption_on_the_way:
            return check_on_the_way(value);
        case SiteCheck::encryption_at_rest:
            return check_at_rest(value, facts);
        case SiteCheck::firewall:
            return {{kByKernel, kUnknown,
                     "autolaunch policy render nftables writes them and the jobs' own ports; root "
                     "loads the file on each node, and only root can see whether it is"}};
        case SiteCheck::data_isolation:
            return check_isolation(value, facts);
        case SiteCheck::image_digest:
            if (!is_true(value))
                return {{kByNobody, kHolds, "any image will do"}};
            return {{kByUs, kHolds,
                     "a spec with container.image and without a digest is refused; who starts a "
                     "container without autolaunch is not asked"}};
        case SiteCheck::audit:
            return check_audit(setting, facts);
        case SiteCheck::scheduler:
            return check_scheduler(value, facts);
        case SiteCheck::allocation_strategy:
            return check_strategy(value, facts);
        case SiteCheck::preemption:
            return check_preemption(value, facts);
        case SiteCheck::swap:
            return check_swap(value, facts);
        case SiteCheck::overcommit:
            return check_overcommit(value, facts);
        case SiteCheck::oom_killer:
            return check_oom_killer(value, facts);
        case SiteCheck::shared_folder:
        case SiteCheck::scratch_folder:
            return check_folder(value, facts);
        case SiteCheck::shared_cache:
            return check_shared_cache(setting, facts);
        case SiteCheck::staged_age:
            return {
                {kByUs, kUnknown,
                 "`autolaunch gc --apply` goes by it for staged data that no job holds; whether "
                 "somebody runs it (cron, Slurm's Epilog) is not known here"}};
        case SiteCheck::logs_kept:
            return check_logs(setting);
        case SiteCheck::measured:
            return check_measured(setting);
        case SiteCheck::alerts:
            return check_alerts(setting);
        case SiteCheck::vault:
            return check_vault(setting);
    }
    return {};
}

SiteKey line_of(const std::string& key, const std::string& value, const Origin& at,
                const Finding& finding) {
    return {
        key,           value,      at.file ? *at.file : std::string(), at.line, finding.enforced_by,
        finding.state, finding.why};
}

template <class T>
void add_limit(const SiteRole& role, const char* name, const std::optional<SiteLimit<T>>& limit,
               const Finding& finding, std::vector<SiteKey>& keys) {
    if (limit)
        keys.push_back(line_of("authorization.user_groups." + role.name + '.' + name, limit->text,
                               limit->at, finding));
}

// Each limit has a file and a line of its own.
void add_roles(const SiteSettings& settings, const Findings& findings, std::vector<SiteKey>& keys) {
    const Finding& finding = findings.back();  // of Slurm, where it was asked
    for (const SiteRole& role : settings.roles) {
        add_limit(role, "permissions", role.permissions, findings.front(), keys);
        add_limit(role, "max_gpus", role.max_gpus, finding, keys);
        add_limit(role, "max_memory", role.max_memory, finding, keys);
        add_limit(role, "max_time", role.max_time, finding, keys);
    }
}

}  // namespace

bool is_kerberos(const std::string& method) {
    return ::strcasecmp(method.c_str(), "kerberos") == 0 ||
           ::strcasecmp(method.c_str(), "krb5") == 0;
}

std::vector<SiteKey> check_site(const SiteSettings& settings, const SiteFacts& facts) {
    std::vector<SiteKey> keys;
    for (const SiteSetting& setting : settings.settings) {
        const Findings findings = check(setting, facts);
        if (setting.rule->form == SiteForm::roles) {
            add_roles(settings, findings, keys);
            continue;
        }
        for (const Finding& finding : findings)
            keys.push_back(line_of(std::string(setting.rule->path), site_value_text(setting),
                                   setting.value.at, finding));
    }
    return keys;
}

}  // namespace autolaunch::launcher
