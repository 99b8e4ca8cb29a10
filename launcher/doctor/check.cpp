#include "doctor/check.hpp"

#include "doctor/examination.hpp"
#include "doctor/looks.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <exception>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;
using enum Severity;

// A hang in the driver or in a file system is what ends jobs: these two fail when they do not
// answer.
const std::array kChecks = {
    Check{"gpus", "GPU count, models and driver; GPUs that the driver has lost", fail,
          "nvidia-smi -q, dmesg; reset the GPU or restart the node", Place::driver, 8s,
          look_at_gpus, fail},
    Check{"ecc", "uncorrected memory errors of GPUs since the driver was loaded", warn,
          "reset the GPU when it is idle: nvidia-smi -r; replace it when they come back",
          Place::driver, 2s, look_at_ecc},
    Check{"row_remap", "GPU memory rows that wait to be remapped, or could not be", fail,
          "reset the GPU when it is idle: nvidia-smi -r", Place::driver, 2s, look_at_row_remap},
    Check{"nvlink", "NVLink errors, and as many active links on each GPU", warn,
          "nvidia-smi nvlink -e; look at the fabric manager's log", Place::driver, 2s,
          look_at_nvlink},
    Check{"gpu_clocks", "GPUs slowed by heat, power brake or hardware", warn,
          "check cooling and power supplies: nvidia-smi -q -d PERFORMANCE", Place::driver, 2s,
          look_at_gpu_clocks},
    Check{"gpu_pcie", "PCIe width of GPUs against what they can", hint,
          "look again under load; reseat the GPU: nvidia-smi -q -d PCIE", Place::driver, 2s,
          look_at_gpu_pcie},
    Check{"fabric", "NVLink fabric state and clique of GPUs, IMEX channel", fail,
          "systemctl status nvidia-fabricmanager nvidia-imex", Place::driver, 2s, look_at_fabric},
    Check{"gpu_processes", "processes that compute on the GPUs already", warn,
          "end what an earlier job left, or ask for exclusive nodes", Place::driver, 2s,
          look_at_gpu_processes},
    Check{"compute_mode", "compute mode of GPUs", warn, "nvidia-smi -c DEFAULT", Place::driver, 2s,
          look_at_compute_mode},
    Check{"gpudirect",
          "the kernel's peer-memory module, or DMA-BUF of the GPUs' driver and of each HCA in use",
          warn,
          "modprobe nvidia_peermem, or install NVIDIA's open kernel modules on Linux 5.12 or later",
          Place::verbs, 3s, look_at_gpudirect},
    Check{"xid", "NVIDIA's Xid messages in the kernel's log", info,
          "look the number up in NVIDIA's Xid catalogue; 48, 63, 64, 74, 79, 92, 94, 95 and 119 "
          "want the node drained",
          Place::files, 2s, look_at_xid},
    Check{"ports", "InfiniBand and RoCE ports: in use, or down while others of their model are up",
          fail, "check cable and switch port: ibstat, ip link", Place::files, 2s,
          look_at_hca_ports},
    Check{"rates", "rates of the active ports, alike for one model", warn,
          "reseat or change the cable: ibstat, mlxlink", Place::files, 2s, look_at_hca_rates},
    Check{"link_errors", "error counters of the active ports, read twice", warn,
          "clean, reseat or change the cable; mlxlink -d DEVICE -c shows it", Place::counters, 5s,
          look_at_hca_counters},
    Check{"mtu", "MTU of the active ports, alike for all", warn,
          "set one MTU on every rail and its switches", Place::verbs, 3s, look_at_mtu},
    Check{"gid",
          "the GID that NCCL takes on each RoCE port: RoCE v2, routable, its interface in our "
          "network namespace",
          fail, "show_gids; give the interface an address, or set NCCL_IB_GID_INDEX", Place::files,
          2s, look_at_gid},
    Check{"uverbs", "/dev/infiniband/uverbs*: can be opened for reading and writing", fail,
          "give the user /dev/infiniband/*, in containers --device=/dev/infiniband", Place::files,
          3s, look_at_uverbs, warn},
    Check{"nic_pcie", "PCIe width and speed of HCAs against what they can", warn,
          "reseat the card; look for the slot's lanes in the firmware's settings", Place::files, 2s,
          look_at_nic_pcie},
    Check{"acs", "IOMMU groups of a GPU and an HCA below one switch, the sign of PCIe ACS", hint,
          "turn ACS off on PCIe switches (root): it sends their traffic through the root complex",
          Place::files, 2s, look_at_acs},
    Check{"iommu", "whether the IOMMU translates what GPUs and HCAs access", warn,
          "boot with iommu=pt", Place::files, 2s, look_at_iommu},
    Check{"numa_balancing", "kernel.numa_balancing, with several NUMA nodes", warn,
          "sysctl kernel.numa_balancing=0", Place::files, 2s, look_at_numa_balancing},
    Check{"governor", "CPU frequency governor", hint, "cpupower frequency-set -g performance",
          Place::files, 2s, look_at_governor},
    Check{"memlock", "limit on locked memory, with HCAs", fail,
          "LimitMEMLOCK=infinity for slurmd, and PropagateResourceLimitsExcept=MEMLOCK; elsewhere "
          "ulimit -l unlimited",
          Place::files, 2s, look_at_memlock},
    Check{"nofile", "hard limit on open files", warn,
          "LimitNOFILE=1048576 for slurmd; elsewhere limits.conf", Place::files, 2s,
          look_at_nofile},
    Check{"shm", "/dev/shm: its size, what is left, and the same one for all tasks of the node",
          warn, "mount -o remount,size=50% /dev/shm; for containers --shm-size or --ipc=host",
          Place::files, 2s, look_at_shared_memory},
    Check{"nccl", "version of the NCCL that the loader finds", fail,
          "install one version on all nodes", Place::nccl, 5s, look_at_nccl_library},
    Check{"nccl_settings",
          "NCCL variables and nccl.conf: debug leftovers, and names that do not exist here", warn,
          "take it out of the environment and of nccl.conf", Place::files, 2s,
          look_at_nccl_settings},
    Check{"storage",
          "checkpoint, run and scratch folders: writable, free space and inodes, by a probe file",
          fail, "free space, or name another folder", Place::folders, 5s, look_at_folder, fail},
    Check{"names", "whether the resolver knows the job's other nodes, and in which families", warn,
          "give all nodes the same DNS or /etc/hosts", Place::names, 6s, look_at_names, warn},
    Check{"machine", "kernel, sockets, NUMA nodes, cores, memory, huge pages: alike on all nodes",
          warn, "boot all nodes with one image and the same firmware settings", Place::files, 2s,
          look_at_machine},
    Check{"rails",
          "whether each node's HCA interfaces reach the next node's, rail by rail and across", warn,
          "check addresses, routes and VLANs of that rail: ip -br addr, ip route get", Place::nodes,
          0s, nullptr},
    Check{"nodes", "whether every node sends its results in time", fail,
          "look at that node: sinfo -R, its slurmd's log, its load", Place::nodes, 0s, nullptr},
    Check{"clock", "clocks of all nodes against the head's, by round trips", warn,
          "run chronyd or ntpd on every node", Place::nodes, 0s, nullptr},
};

}  // namespace

std::span<const Check> checks() { return kChecks; }

const Check* find_check(std::string_view name) {
    const auto found = std::find_if(kChecks.begin(), kChecks.end(),
                                    [&](const Check& c) { return c.name == name; });
    return found == kChecks.end() ? nullptr : &*found;
}

bool CheckChoice::has(std::string_view check) const {
    const auto named = [&](const std::vector<std::string>& list) {
        return std::find(list.begin(), list.end(), check) != list.end();
    };
    return (only.empty() || named(only)) && !named(skip);
}

std::vector<std::string> check_names_from(const std::string& list) {
    std::vector<std::string> names, known;
    for (const Check& check : kChecks)
        known.emplace_back(check.name);
    for (const std::string& part : split(list, ',')) {
        const std::string name(trim(part));
        if (name.empty())
            continue;
        if (find_check(name) == nullptr) {
            const std::string near = nearest(name, known);
            throw Error(
                ErrorCode::invalid_argument, "there is no check '" + name + "'",
                near.empty() ? "there are " + join(known, ", ") : "did you mean " + near + "?");
        }
        names.push_back(name);
    }
    return names;
}

NodeReport run_check(const Check& check, ExaminedNode& state, std::size_t part) {
    Examination exam(check, state, part);
    try {
        check.look(exam);
    } catch (const std::exception& error) {
        exam.cannot_look(error.what());
    }
    return exam.take();
}

std::size_t parts_of(const Check& check, const NodeSources& sources) {
    return check.place == Place::folders ? std::max<std::size_t>(sources.folders.size(), 1) : 1;
}

}  // namespace autolaunch::launcher
