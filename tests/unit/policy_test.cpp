// Requests against roles, and roles as limits of Slurm.

#include "policy/judge_claim.hpp"
#include "policy/policy_diff.hpp"
#include "policy/slurm_policy.hpp"
#include "spec/yaml_reader.hpp"

#include <autolaunch/error.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace policy_test {

using namespace autolaunch;
using namespace autolaunch::launcher;
using std::chrono::hours;
using std::chrono::minutes;

namespace {

constexpr const char* kRoles = R"(contact: ops@x
rbac:
  enabled: true
  roles:
    big: {permissions: [train, checkpoint], max_gpus: 8, max_memory: 512GB, max_time: 24h}
    long: {permissions: [train, validate], max_gpus: 2, max_time: 72h}
    gone: {max_gpus: 1}
)";

SiteSettings settings_of(const std::string& text) {
    std::vector<SpecError> errors;
    SiteSettings settings =
        read_site_settings(read_yaml(text, "s.yaml", errors), SiteSource::administrator, errors);
    REQUIRE(errors.empty());
    return settings;
}

JobUser user_in(std::vector<std::string> groups, uid_t uid = 1000) {
    return {uid, uid == 0 ? "root" : "ann", std::move(groups)};
}

JobClaim claim(std::int64_t gpus, std::chrono::seconds time,
               std::vector<std::string> actions = {"train"}) {
    JobClaim made;
    made.gpus = gpus;
    made.gpus_words = "n nodes";
    made.time = time;
    made.actions = std::move(actions);
    return made;
}

PolicyVerdict judge(const JobUser& user, const JobClaim& wanted, const char* roles = kRoles) {
    return judge_claim(settings_of(roles), user, wanted,
                       [](const std::string& group) { return group != "gone"; });
}

}  // namespace

TEST_CASE("a job within its role is allowed, and the role is named") {
    const PolicyVerdict verdict = judge(user_in({"staff", "big"}), claim(8, hours(24)));
    CHECK(verdict.allowed);
    CHECK(verdict.decision ==
          "allowed: role big (s.yaml:5), max_gpus 8, max_memory 512GB, max_time 24h");
    CHECK(verdict.uncompared ==
          std::vector<std::string>{
              "max_memory (s.yaml:5) is not compared: nobody says how much memory the job has"});
    CHECK(verdict.notes == std::vector<std::string>{"the role gone (s.yaml:7) is nobody's: this "
                                                    "system has no such group"});
}

TEST_CASE("the limit that forbids it is named, with what to ask for and whom") {
    const JobUser user = user_in({"big"});
    const PolicyVerdict gpus = judge(user, claim(9, hours(1)));
    CHECK_FALSE(gpus.allowed);
    CHECK(gpus.decision == "9 GPUs (n nodes) are more than max_gpus 8 of the role big (s.yaml:5)");
    CHECK(gpus.hint == "ask for 8 GPUs at most; for more, ask ops@x");
    const PolicyVerdict time = judge(user, claim(1, hours(24) + std::chrono::seconds(1)));
    CHECK(time.decision ==
          "a time limit of 1-00:00:01 is longer than max_time 24h of the role big "
          "(s.yaml:5)");
    CHECK(time.hint == "give --time=1-00:00:00 or less; for more, ask ops@x");
    JobClaim endless = claim(1, hours(1));
    endless.time.reset();
    endless.unlimited_time = true;
    CHECK_FALSE(judge(user, endless).allowed);
    JobClaim memory = claim(1, hours(1));
    memory.memory = 512'000'000'001;
    CHECK(judge(user, memory).decision.find("more than max_memory 512GB") != std::string::npos);
    memory.memory = 512'000'000'000;
    CHECK(judge(user, memory).allowed);
    const PolicyVerdict action = judge(user, claim(1, hours(1), {"validate"}));
    CHECK(action.decision ==
          "the role big has no permission to validate: it has [train, "
          "checkpoint] (s.yaml:5)");
}

TEST_CASE("of several roles the widest that allows the whole job counts") {
    const JobUser user = user_in({"long", "big"});
    CHECK(judge(user, claim(2, hours(2))).decision.starts_with("allowed: role big"));
    CHECK(judge(user, claim(2, hours(48))).decision.starts_with("allowed: role long"));
    CHECK(judge(user, claim(2, hours(2), {"validate"})).decision.starts_with("allowed: role long"));
    const PolicyVerdict both =
        judge(user, claim(4, hours(48)));  // big is too short, long too small
    CHECK_FALSE(both.allowed);
    CHECK(both.decision.find("of the role big") != std::string::npos);
    CHECK(both.notes.at(0) == "ann has 2 roles; none allows this job, and the widest is named");
}

TEST_CASE("root has no limits, and who has no role is told which there are") {
    CHECK(judge(user_in({"root"}, 0), claim(1000, hours(1000))).decision ==
          "allowed: roles do not limit root");
    const PolicyVerdict none = judge(user_in({"staff"}), claim(0, hours(1)));
    CHECK_FALSE(none.allowed);
    CHECK(none.decision ==
          "ann has no role: roles are of the groups big, long, gone (s.yaml:5), "
          "and ann is in staff");
    CHECK(none.hint == "for more, ask ops@x");
    CHECK(judge(user_in({"staff"}), claim(64, hours(1)),
                "rbac: {enabled: false, roles: {big: {max_gpus: 1}}}")
              .decision.empty());
    CHECK(judge_action(settings_of(kRoles), user_in({"gone"}), "export").allowed);
    CHECK_FALSE(judge_action(settings_of(kRoles), user_in({"big"}), "export").allowed);
}

TEST_CASE("what a spec asks for is the larger of what it says in two places") {
    JobSpec spec;
    CHECK_FALSE(claim_of_spec(spec, "").gpus);
    spec.slurm.nodes = 4;
    spec.slurm.gres = "gpu:a100:2,nvme:1";
    spec.slurm.mem = "100G";
    spec.slurm.time_limit = "1-00:00:00";
    spec.checkpoint.enabled = true;
    JobClaim wanted = claim_of_spec(spec, "");
    CHECK(wanted.gpus == 8);
    CHECK(wanted.gpus_words == "4 nodes x 2");
    CHECK(wanted.memory == (std::int64_t{400} << 30));
    CHECK(wanted.time == hours(24));
    CHECK(wanted.actions == std::vector<std::string>{"train", "checkpoint"});
    spec.resources.nodes = spec.resources.most_nodes = 6;
    spec.resources.spare_nodes = 2;
    spec.resources.gpus_per_node = 8;
    spec.slurm.time_limit = "UNLIMITED";
    wanted = claim_of_spec(spec, "validate");
    CHECK(wanted.gpus == 64);
    CHECK(wanted.unlimited_time);
    CHECK(wanted.actions == std::vector<std::string>{"validate", "checkpoint"});
    const JobClaim granted =
        claim_of_grant(wanted, 2, 4, {{"SLURM_MEM_PER_CPU", "1024"}, {"SLURM_CPUS_ON_NODE", "8"}});
    CHECK(granted.gpus == 8);
    CHECK(granted.memory == (std::int64_t{16} << 30));
    CHECK_FALSE(claim_of_grant(wanted, 2, 4, {}).memory);
}

TEST_CASE("roles become QoS, accounts and associations of Slurm") {
    const auto roles = slurm_roles(settings_of(kRoles), [](const std::string& group) {
        return group == "big" ? std::vector<std::string>{"ann", "bob"} : std::vector<std::string>{};
    });
    const SlurmPolicyFiles files = render_slurm_policy(roles, "s.yaml", "ops@x");
    for (const char* line :
         {"has qos where name=big || sacctmgr -i add qos big\n",
          "sacctmgr -i modify qos where name=big set MaxTRESPerUser=gres/gpu=8,mem=488281 "
          "MaxWall=1440 Flags=DenyOnLimit\n",
          "set MaxTRESPerUser=gres/gpu=2,mem=-1 MaxWall=4320 ",
          "sacctmgr -i modify account where name=big set QOS=big DefaultQOS=big\n",
          "has assoc where account=big user=bob || sacctmgr -i add user bob account=big\n",
          "# nobody is in this group"})
        CHECK_MESSAGE(files.commands.find(line) != std::string::npos, line, "\n", files.commands);
    CHECK(files.conf.find("AccountingStorageEnforce=associations,limits,qos\n") !=
          std::string::npos);
    CHECK(files.lua.find("[\"big\"] = {gpus = 8, minutes = 1440, place = \"s.yaml:5\"}") !=
          std::string::npos);
    CHECK(files.lua.find("local whom = \"for more, ask ops@x\"") != std::string::npos);
}

TEST_CASE("what Slurm cannot have is refused, and nothing of a name reaches a shell") {
    const auto none = [](const std::string&) { return std::vector<std::string>{}; };
    const auto roles = [&](const char* text) { return slurm_roles(settings_of(text), none); };
    CHECK_THROWS_AS(roles("rbac: {roles: {\"a;rm -rf /\": {}}}"), Error);
    CHECK_THROWS_AS(roles("rbac: {roles: {-i: {}}}"), Error);
    CHECK_THROWS_AS(roles("rbac: {roles: {domain users: {}}}"), Error);
    CHECK_THROWS_AS(roles("rbac: {roles: {Lab: {}, lab: {}}}"), Error);
    CHECK_THROWS_AS(roles("rbac: {roles: {a: {max_time: 30s}}}"), Error);
    CHECK_THROWS_AS(
        slurm_roles(settings_of("rbac: {roles: {a: {}}}"),
                    [](const std::string&) { return std::vector<std::string>{"x$(reboot)"}; }),
        Error);
    CHECK(roles("rbac: {roles: {ML_Lab: {}}}")[0].name == "ml_lab");
}

namespace {

LiveSlurm live_as_rendered() {
    LiveSlurm live;
    live.config = {{"AccountingStorageEnforce", "associations,limits,qos"},
                   {"AccountingStorageTRES", "cpu,mem,energy,node,billing,fs/disk,gres/gpu"}};
    live.qos = parse_qos(
        "Name|MaxTRESPU|MaxWall|Flags\nnormal||| \n"
        "big|gres/gpu=8,mem=488281M|1-00:00:00|DenyOnLimit\nlong|gres/"
        "gpu=2|3-00:00:00|DenyOnLimit\n"
        "gone|gres/gpu=1||DenyOnLimit\n");
    live.associations = parse_associations(
        "Account|User|QOS\nbig||big\nbig|ann|big\nbig|bob|big\nlong||long\ngone||gone\n");
    return live;
}

std::vector<SlurmRole> roles_with_members() {
    return slurm_roles(settings_of(kRoles), [](const std::string& group) {
        return group == "big" ? std::vector<std::string>{"ann", "bob"} : std::vector<std::string>{};
    });
}

std::string told(const LiveSlurm& live) {
    std::string text;
    for (const PolicyDifference& one : compare_policy(roles_with_members(), live))
        text += one.what + " | " + one.file + " | " + one.cluster + " | " + one.fix + "\n";
    return text;
}

}  // namespace

TEST_CASE("a cluster that has what the file says has no difference") {
    CHECK(told(live_as_rendered()) == "");
    LiveSlurm rounded = live_as_rendered();
    rounded.qos = parse_qos("Name|MaxTRESPU|MaxWall|Flags\nx|mem=512G,gres/gpu=3|90|\n");
    CHECK(rounded.qos.at("x").most.at("mem") == 512 * 1024);
    CHECK(rounded.qos.at("x").minutes == 90);
}

TEST_CASE("each limit that differs is named, with both values and the command") {
    LiveSlurm live = live_as_rendered();
    live.qos.at("big").most["gres/gpu"] = 16;
    CHECK(told(live) ==
          "max_gpus of big | 8 (s.yaml:5) | 16 (QoS big, MaxTRESPU) | sacctmgr -i "
          "modify qos where name=big set MaxTRESPerUser=gres/gpu=8\n");
    live = live_as_rendered();
    live.qos.at("big").most.erase("mem");
    CHECK(told(live).starts_with("max_memory of big | 488281 MiB (s.yaml:5) | no limit (QoS big"));
    live = live_as_rendered();
    live.qos.at("long").minutes.reset();
    CHECK(told(live).find("max_time of long | 4320 minutes (s.yaml:6) | no limit") == 0);
    live = live_as_rendered();
    live.qos.at("long").most["mem"] = 5;  // a limit that the file does not have
    CHECK(told(live).find("max_memory of long | no limit (s.yaml:6) | 5 MiB") == 0);
    live = live_as_rendered();
    live.qos.at("big").flags.clear();
    CHECK(told(live).find("no flag DenyOnLimit") != std::string::npos);
    live = live_as_rendered();
    live.qos.erase("gone");
    CHECK(told(live).find("the QoS of gone") == 0);
}

TEST_CASE("ways round the limits are differences, too") {
    LiveSlurm live = live_as_rendered();
    live.config["AccountingStorageEnforce"] = "associations";
    CHECK(told(live).find("whether slurmctld applies limits") == 0);
    live = live_as_rendered();
    live.config["AccountingStorageTRES"] = "cpu,mem";
    CHECK(told(live).find("whether GPUs are counted") == 0);
    live = live_as_rendered();
    live.associations[1].qos.insert("normal");
    CHECK(told(live) ==
          "the QoS of ann in account big | big alone (s.yaml:5) | big, normal | "
          "sacctmgr -i modify user where name=ann account=big set QOS=big\n");
    live = live_as_rendered();
    live.associations.push_back({"big", "eve", {"big"}});
    CHECK(told(live).find("eve in account big | no member of the group") == 0);
    live = live_as_rendered();
    live.associations.erase(live.associations.begin() + 2);
    CHECK(told(live).find("bob in account big | a member of the group (s.yaml:5) | no association "
                          "| sacctmgr -i add user bob account=big") == 0);
    live = live_as_rendered();
    live.associations.erase(live.associations.begin());
    CHECK(told(live).find("no account of that name") != std::string::npos);
}

}  // namespace policy_test
