// Files of a run that `autolaunch report` reads.
//
//     run_report_fuzz CORPUS tests/fuzz/seeds/run_report

#include "run_report_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_report_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
