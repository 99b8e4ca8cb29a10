#include "policy/slurm_policy.hpp"

#include "base/refuse.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <cctype>

namespace autolaunch::launcher {

namespace {

constexpr std::int64_t kBytesOfMiB = std::int64_t{1} << 20;

bool is_plain(const std::string& name) {
    return !name.empty() && name[0] != '-' &&
           std::all_of(name.begin(), name.end(), [](unsigned char c) {
               return c < 128 && (std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.');
           });
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

SlurmRole slurm_role(const SiteRole& role, const MembersOf& members_of) {
    if (!is_plain(role.name))
        refuse("Slurm has no account of the name \"" + role.name + "\" (" + place_of(role.at) + ")",
               "give the group another name: letters, digits, . _ and -");
    SlurmRole made{lower(role.name), place_of(role.at), {}, {}, {}, {}, {}, {}, {}};
    if (role.max_gpus) {
        made.gpus = role.max_gpus->value;
        made.gpus_place = place_of(role.max_gpus->at);
    }
    if (role.max_memory) {
        made.memory_mib = role.max_memory->value / kBytesOfMiB;
        made.memory_place = place_of(role.max_memory->at);
    }
    if (role.max_time) {
        made.minutes = role.max_time->value.count() / 60;
        made.minutes_place = place_of(role.max_time->at);
        if (*made.minutes == 0)
            refuse("Slurm counts minutes: max_time " + role.max_time->text + " (" +
                       made.minutes_place + ") is less than one",
                   "give a minute at least");
    }
    for (const std::string& member : members_of(role.name)) {
        if (!is_plain(member))
            refuse("Slurm has no user of the name \"" + member + "\", a member of " + role.name,
                   "leave it out of the group, or write its association by hand");
        made.members.push_back(member);
    }
    return made;
}

std::string or_none(const std::optional<std::int64_t>& limit) {
    return limit ? std::to_string(*limit) : "-1";
}

std::string header(const std::string& comment, const std::string& file) {
    return comment + " Written by `autolaunch policy render slurm` from " + file +
           ". Change that file, not this one.\n";
}

std::string commands_of(const SlurmRole& role) {
    const std::string& name = role.name;
    std::string text = "\n# role " + name + ", " + role.place + "\n";
    text += "has qos where name=" + name + " || sacctmgr -i add qos " + name + "\n";
    text += "sacctmgr -i modify qos where name=" + name +
            " set MaxTRESPerUser=" + max_tres_per_user(role) + " MaxWall=" + max_wall(role) +
            " Flags=DenyOnLimit\n";
    text += "has account where name=" + name + " || sacctmgr -i add account " + name +
            " Description=\"role of autolaunch\" Organization=autolaunch\n";
    text += "sacctmgr -i modify account where name=" + name + " set QOS=" + name +
            " DefaultQOS=" + name + "\n";
    for (const std::string& member : role.members)
        text += "has assoc where account=" + name + " user=" + member +
                " || sacctmgr -i add user " + member + " account=" + name + "\n";
    if (role.members.empty())
        text +=
            "# nobody is in this group, as far as it can be listed here: "
            "sacctmgr -i add user NAME account=" +
            name + "\n";
    return text;
}

std::string lua_number(const std::optional<std::int64_t>& limit) {
    return limit ? std::to_string(*limit) : "nil";
}

std::string lua_text(const std::string& text) {
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            quoted += '\\';
        quoted += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    return quoted + '"';
}

std::string lua_roles(const std::vector<SlurmRole>& roles) {
    std::string text = "local roles = {\n";
    for (const SlurmRole& role : roles)
        text += "    [" + lua_text(role.name) + "] = {gpus = " + lua_number(role.gpus) +
                ", minutes = " + lua_number(role.minutes) + ", place = " + lua_text(role.place) +
                "},\n";
    return text + "}\n";
}

// The limits are the QoS's; this says at submission, in words, which one a job exceeds.
constexpr const char* kLuaBody = R"(
-- "gres:gpu:a100:4,gres:nvme:1" -> 4; Slurm before 21.08 leaves gres: out.
local function gpus_in(tres)
    local count = 0
    for one in string.gmatch(tres or "", "[^,]+") do
        one = string.gsub(one, "^gres[:/]", "")
        if string.match(one, "^gpu") then
            count = count + (tonumber(string.match(one, "[:=](%d+)$")) or 1)
        end
    end
    return count
end

local function number_or(value, other)
    if value == nil or value >= 65534 and value == slurm.NO_VAL16 or value == slurm.NO_VAL then
        return other
    end
    return value
end

local function gpus_of(job)
    local nodes, tasks = number_or(job.min_nodes, 1), number_or(job.num_tasks, 1)
    return math.max(gpus_in(job.tres_per_job), gpus_in(job.tres_per_node) * nodes,
        gpus_in(job.tres_per_task) * tasks)
end

function slurm_job_submit(job, partitions, uid)
    local role = roles[job.account or job.default_account or ""]
    if uid == 0 or role == nil then
        return slurm.SUCCESS
    end
    local gpus = gpus_of(job)
    if role.gpus ~= nil and gpus > role.gpus then
        slurm.log_user("%d GPUs are more than max_gpus %d of your role (%s); %s", gpus, role.gpus, role.place, whom)
        return slurm.ERROR
    end
    local minutes = number_or(job.time_limit, 0)
    if role.minutes ~= nil and minutes > role.minutes then
        slurm.log_user("a time limit of %d minutes is longer than max_time, %d minutes, of your role (%s); %s", minutes,
            role.minutes, role.place, whom)
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

-- Only an administrator may raise a job's limits, and the QoS holds for what a user changes.
function slurm_job_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
)";

}  // namespace

std::vector<SlurmRole> slurm_roles(const SiteSettings& settings, const MembersOf& members_of) {
    std::vector<SlurmRole> roles;
    for (const SiteRole& role : settings.roles) {
        SlurmRole made = slurm_role(role, members_of);
        const auto same = std::find_if(roles.begin(), roles.end(),
                                       [&](const SlurmRole& one) { return one.name == made.name; });
        if (same != roles.end())
            refuse(
                "two roles are " + made.name + " to Slurm: " + same->place + " and " + made.place,
                "give one of the groups another name");
        roles.push_back(std::move(made));
    }
    return roles;
}

std::string max_tres_per_user(const SlurmRole& role) {
    return "gres/gpu=" + or_none(role.gpus) + ",mem=" + or_none(role.memory_mib);
}

std::string max_wall(const SlurmRole& role) { return or_none(role.minutes); }

SlurmPolicyFiles render_slurm_policy(const std::vector<SlurmRole>& roles, const std::string& file,
                                     const std::string& contact) {
    SlurmPolicyFiles files;
    files.commands =
        "#!/bin/sh\n" + header("#", file) +
        "# Run it as root or SlurmUser where sacctmgr reaches slurmdbd, once slurmctld "
        "runs with the lines of\n# slurm.conf.lines: gres/gpu is known only then. It "
        "may be run again.\nset -eu\nhas() { [ -n \"$(sacctmgr -nP show \"$@\")\" ]; }\n";
    for (const SlurmRole& role : roles)
        files.commands += commands_of(role);
    files.conf = header("#", file) +
                 "# For slurm.conf: without the first two lines slurmctld applies none of these "
                 "limits.\n"
                 "AccountingStorageType=accounting_storage/slurmdbd\n"
                 "AccountingStorageEnforce=associations,limits,qos\n"
                 "# Limits on GPUs need GPUs to be counted.\n"
                 "AccountingStorageTRES=gres/gpu\n"
                 "# job_submit.lua beside slurm.conf: a refusal at submission in words.\n"
                 "JobSubmitPlugins=lua\n";
    const std::string whom =
        "for more, ask " + (contact.empty() ? "the administrator of this cluster" : contact);
    files.lua =
        header("--", file) + lua_roles(roles) + "local whom = " + lua_text(whom) + "\n" + kLuaBody;
    return files;
}

}  // namespace autolaunch::launcher
