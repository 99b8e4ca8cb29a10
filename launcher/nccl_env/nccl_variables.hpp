#pragma once
#include <span>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

/// What autolaunch does with a variable of NCCL.
enum class NcclAction {
    set,      ///< where the machine asks for it
    leave,    ///< NCCL's default is right
    warn,     ///< a foot-gun: told about where it is set
    profile,  ///< only a profile sets it
};

/// Where a variable counts.
enum class NcclScope { everywhere, with_hcas, with_roce, many_nodes };

struct NcclVariable {
    std::string_view name;           ///< whole, "NCCL_IB_HCA"
    std::string_view default_value;  ///< NCCL 2.28's
    NcclAction action;
    std::string_view what;    ///< what autolaunch does, for docs/nccl.md
    std::string_view reason;  ///< why
    std::string_view source;  ///< NCCL's file, or who said so
    NcclScope scope = NcclScope::everywhere;
    bool often_set =
        false;  ///< found in many scripts: `autolaunch plan` says that it is left alone
};

/// The one table of NCCL's variables. Decisions, foot-guns and docs/nccl.md go by it.
std::span<const NcclVariable> nccl_variables();
const NcclVariable* find_nccl_variable(std::string_view name);

/// docs/nccl.md's table.
std::string nccl_variables_markdown();

}  // namespace autolaunch::launcher
