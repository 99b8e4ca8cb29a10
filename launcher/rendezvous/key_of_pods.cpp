#include "rendezvous/key_of_pods.hpp"

#include "control/rendezvous_error.hpp"
#include "exit_codes/exit_codes.hpp"
#include "session/environment.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>

namespace autolaunch::launcher {

namespace {

constexpr const char* kMungeSocket = "/run/munge/munge.socket.2";
constexpr long kXfs = 0x58465342;  // not in magic.h

// Of one machine, or of one container of it. What is not here may be shared.
bool is_of_one_machine(const std::string& folder) {
    constexpr std::array<long, 7> kLocal = {OVERLAYFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, kXfs,
                                            BTRFS_SUPER_MAGIC,     TMPFS_MAGIC,      RAMFS_MAGIC,
                                            F2FS_SUPER_MAGIC};
    std::filesystem::path existing = folder;
    struct statfs status {};
    while (::statfs(existing.c_str(), &status) != 0) {
        if (!existing.has_relative_path())
            return false;
        existing = existing.parent_path();
    }
    return std::find(kLocal.begin(), kLocal.end(), static_cast<long>(status.f_type)) !=
           kLocal.end();
}

}  // namespace

void check_key_reaches_pods(const KeyPlan& plan, const EnvironmentMap& environment) {
    if (!environment.contains("KUBERNETES_SERVICE_HOST") || plan.given)
        return;
    const std::string munge = plan.munge_socket.empty() ? kMungeSocket : plan.munge_socket;
    if (::access(munge.c_str(), F_OK) == 0)
        return;
    const std::string folder = std::filesystem::path(plan.shared_file).parent_path();
    if (!folder.empty() && !is_of_one_machine(folder))
        return;
    throw RendezvousError(
        exit_code::kNotPermitted,
        "the pods of this job have no key to prove that they belong together",
        std::string("make one, once:\n"
                    "  kubectl create secret generic autolaunch-key "
                    "--from-literal=key=\"$(head -c 32 /dev/urandom | base64)\"\n"
                    "and add this line to the container in the pod template:\n"
                    "  env: [{name: ") +
            env::kJobKey +
            ", valueFrom: {secretKeyRef: {name: autolaunch-key, key: key}}}]\n"
            "or let the run directory be on a volume that all pods share (--log-dir); " +
            (folder.empty() ? std::string("there is none") : folder + " is this pod's alone"));
}

}  // namespace autolaunch::launcher
