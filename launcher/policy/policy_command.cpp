#include "policy/policy_command.hpp"

#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/owned_folder.hpp"
#include "base/refuse.hpp"
#include "exit_codes/exit_codes.hpp"
#include "exit_codes/exit_error.hpp"
#include "policy/nftables_policy.hpp"
#include "policy/policy_diff.hpp"
#include "policy/user_groups.hpp"
#include "secrets/json_text.hpp"
#include "site/site_checks.hpp"
#include "site/site_facts.hpp"
#include "site/site_file.hpp"
#include "site/site_text.hpp"

#include <autolaunch/error.hpp>

#include <chrono>
#include <cstdio>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kPolicyTime = std::chrono::seconds(30);
constexpr int kPolicyFormat = 1;
constexpr mode_t kScriptMode = 0750;

struct PolicySource {
    std::string file;
    SiteSettings settings;
};

PolicySource read_source(const PolicyRequest& request, std::vector<std::string>& notes) {
    if (request.site_file.empty()) {
        auto site = read_site_file();
        if (!site)
            throw ExitError(exit_code::kNoInput, ErrorCode::invalid_argument,
                            std::string("there is no ") + kSiteFile,
                            "write it (docs/site.md), or name a draft with --site FILE");
        return {kSiteFile, std::move(*site)};
    }
    const std::string doubt = why_not_roots_own(absolute_path(request.site_file));
    if (!doubt.empty())
        notes.push_back("a draft: where it is, it would not count: " + doubt);
    return {request.site_file, read_site_draft(request.site_file)};
}

std::vector<SlurmRole> roles_to_write(const PolicySource& source) {
    if (!source.settings.has_roles() || source.settings.roles.empty())
        refuse(source.file + " has no roles",
               "authorization: {rbac_enabled: true, user_groups: [...]} (docs/site.md)");
    for (const SiteRole& role : source.settings.roles)
        if (look_up_group(role.name).answer == DatabaseAnswer::no_answer)
            throw ExitError(exit_code::kUnavailable, ErrorCode::system,
                            "who is in the group " + role.name +
                                " is not known: the system's "
                                "database of groups gave no answer",
                            "try again when `getent group " + role.name + "` answers");
    return slurm_roles(source.settings, group_members);
}

// Empty: there is the group that the role is of.
std::string doubt_of_group(const std::string& role, const std::string& place) {
    switch (look_up_group(role).answer) {
        case DatabaseAnswer::exists:
            return {};
        case DatabaseAnswer::none:
            return "the role " + role + " (" + place +
                   ") is nobody's: this system has no such group";
        case DatabaseAnswer::no_answer:
            break;
    }
    return "whether there is the group of the role " + role + " (" + place +
           ") is not known: the system's database of groups gave no answer";
}

void note_listing(const std::vector<SlurmRole>& roles, std::vector<std::string>& notes) {
    for (const SlurmRole& role : roles)
        if (std::string doubt = doubt_of_group(role.name, role.place); !doubt.empty())
            notes.push_back(std::move(doubt));
        else if (role.members.empty())
            notes.push_back("nobody is listed in the group " + role.name +
                            ": its associations are not written and not compared");
}

PolicyOutcome show(const PolicySource& source, bool json, std::vector<std::string> notes) {
    SiteFacts facts = read_node_facts();
    ask_slurm(facts, Deadline::after(kPolicyTime));
    SiteRecord record{source.file, check_site(source.settings, facts), {}, std::move(notes)};
    for (const SiteRole& role : source.settings.roles)
        if (std::string doubt = doubt_of_group(role.name, place_of(role.at)); !doubt.empty())
            record.notes.push_back(std::move(doubt));
    if (!json)
        return {source.file + "\n" + site_table(record), {}, exit_code::kSuccess};
    JsonText text(Secrets::mask, {});
    text.object([&] {
        text.member("format", kPolicyFormat);
        text.member("site", [&] { put_site(text, &record); });
    });
    return {text.text() + "\n", {}, exit_code::kSuccess};
}

PolicyOutcome render(const PolicySource& source, const std::string& folder,
                     std::vector<std::string> notes) {
    const std::vector<SlurmRole> roles = roles_to_write(source);
    note_listing(roles, notes);
    const SlurmPolicyFiles files = render_slurm_policy(roles, source.file, source.settings.contact);
    const OwnedFolder place = OwnedFolder::make(folder);
    place.replace("sacctmgr.sh", files.commands, kScriptMode);
    place.replace("slurm.conf.lines", files.conf);
    place.replace("job_submit.lua", files.lua);
    return {folder + "/sacctmgr.sh: QoS, accounts and associations of " +
                std::to_string(roles.size()) + " roles\n" + folder +
                "/slurm.conf.lines: what slurm.conf needs for them\n" + folder +
                "/job_submit.lua: a refusal at submission, in words\n",
            std::move(notes), exit_code::kSuccess};
}

// Of this node: a cluster's are alike as a rule, and a note says what was taken.
std::pair<int, int> chosen_ports(std::vector<std::string>& notes) {
    constexpr std::pair kUsual(32768, 60999);
    constexpr char kRange[] = "/proc/sys/net/ipv4/ip_local_port_range";
    int first = 0, last = 0;
    try {
        if (std::sscanf(read_file(kRange).c_str(), "%d %d", &first, &last) == 2 && first > 0 &&
            first <= last && last < 65536)
            return {first, last};
    } catch (const Error&) {
    }
    notes.push_back(std::string(kRange) + " cannot be read: " + std::to_string(kUsual.first) + "-" +
                    std::to_string(kUsual.second) + " is taken for the ports that it gives out");
    return kUsual;
}

std::string differences_text(const std::vector<PolicyDifference>& differences) {
    std::string text;
    for (const PolicyDifference& one : differences)
        text += one.what + ": the file says " + one.file + ", the cluster has " + one.cluster +
                "\n    " + one.fix + "\n";
    return text.empty() ? "the cluster has what the file says\n" : text;
}

std::string differences_json(const std::vector<PolicyDifference>& differences,
                             const std::string& file) {
    JsonText json(Secrets::mask, {});
    json.object([&] {
        json.member("format", kPolicyFormat);
        json.member("file", file);
        json.member("differences", [&] {
            json.array(differences, [&](const PolicyDifference& one) {
                json.object([&] {
                    json.member("what", one.what);
                    json.member("file", one.file);
                    json.member("cluster", one.cluster);
                    json.member("fix", one.fix);
                });
            });
        });
    });
    return json.text() + "\n";
}

PolicyOutcome compare(const PolicySource& source, bool json, std::vector<std::string> notes) {
    const std::vector<SlurmRole> roles = roles_to_write(source);
    note_listing(roles, notes);
    const auto differences =
        compare_policy(roles, read_live_slurm(roles, Deadline::after(kPolicyTime)));
    return {json ? differences_json(differences, source.file) : differences_text(differences),
            std::move(notes), differences.empty() ? exit_code::kSuccess : exit_code::kFindings};
}

// Without the administrator's file: the ports of jobs alone.
PolicySource source_of_firewall(const PolicyRequest& request, std::vector<std::string>& notes) {
    if (request.site_file.empty() && !read_site_file())
        return {};
    return read_source(request, notes);
}

PolicyOutcome render_firewall(const PolicyRequest& request, std::vector<std::string> notes) {
    const PolicySource source = source_of_firewall(request, notes);
    const std::string text = render_nftables(
        source.settings, source.file, {request.interface, request.networks, chosen_ports(notes)});
    OwnedFolder::make(request.folder).replace("autolaunch.nft", text);
    return {request.folder +
                "/autolaunch.nft: check it with nft -c -f, load it with nft -f on each node, as "
                "root\n",
            std::move(notes), exit_code::kSuccess};
}

}  // namespace

PolicyOutcome run_policy_command(const PolicyRequest& request) {
    std::vector<std::string> notes;
    if (request.action == PolicyAction::render_nftables)
        return render_firewall(request, std::move(notes));
    const PolicySource source = read_source(request, notes);
    switch (request.action) {
        case PolicyAction::render_nftables:
            break;
        case PolicyAction::show:
            return show(source, request.json, std::move(notes));
        case PolicyAction::render_slurm:
            return render(source, request.folder, std::move(notes));
        case PolicyAction::diff:
            return compare(source, request.json, std::move(notes));
    }
    return {};
}

}  // namespace autolaunch::launcher
