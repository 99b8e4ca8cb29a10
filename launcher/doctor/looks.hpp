#pragma once
#include <cstdint>

namespace autolaunch::launcher {

class Examination;

inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// The functions of the table in check.cpp, by what they look at. Private to this folder.

// system_looks.cpp
void look_at_machine(Examination& exam);
void look_at_governor(Examination& exam);
void look_at_numa_balancing(Examination& exam);
void look_at_iommu(Examination& exam);
void look_at_memlock(Examination& exam);
void look_at_nofile(Examination& exam);
void look_at_shared_memory(Examination& exam);
void look_at_xid(Examination& exam);

// gpu_looks.cpp
void look_at_gpus(Examination& exam);
void look_at_ecc(Examination& exam);
void look_at_row_remap(Examination& exam);
void look_at_nvlink(Examination& exam);
void look_at_gpu_clocks(Examination& exam);
void look_at_gpu_pcie(Examination& exam);
void look_at_fabric(Examination& exam);
void look_at_gpu_processes(Examination& exam);
void look_at_compute_mode(Examination& exam);

// fabric_looks.cpp
void look_at_hca_ports(Examination& exam);
void look_at_hca_rates(Examination& exam);
void look_at_hca_counters(Examination& exam);
void look_at_gid(Examination& exam);
void look_at_mtu(Examination& exam);
void look_at_uverbs(Examination& exam);
void look_at_nic_pcie(Examination& exam);
void look_at_gpudirect(Examination& exam);
void look_at_acs(Examination& exam);

// software_looks.cpp
void look_at_nccl_library(Examination& exam);
void look_at_nccl_settings(Examination& exam);
void look_at_folder(Examination& exam);
void look_at_names(Examination& exam);

}  // namespace autolaunch::launcher
