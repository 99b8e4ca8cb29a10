#include "plan/mpi_variables.hpp"

#include <algorithm>
#include <array>

namespace autolaunch::launcher {

namespace {

bool starts_with_one_of(std::string_view name, const auto& prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

bool is_of_mpi_server(std::string_view name) {
    constexpr std::array<std::string_view, 3> kOfServer = {"PMIX_", "PMI_", "PMI2_"};
    return starts_with_one_of(name, kOfServer) && !name.starts_with("PMIX_MCA_") &&
           name != "PMI_DEBUG";
}

bool is_of_mpirun_daemon(std::string_view name) {
    constexpr std::array<std::string_view, 4> kOfDaemon = {"OMPI_MCA_orte_", "OMPI_MCA_ess",
                                                           "OMPI_APP_CTX", "PRTE_MCA_"};
    return starts_with_one_of(name, kOfDaemon);
}

}  // namespace autolaunch::launcher
