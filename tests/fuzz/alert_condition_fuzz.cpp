// Conditions of alerts, as a spec or the administrator's file has them.
//
//     alert_condition_fuzz CORPUS tests/fuzz/seeds/alert_condition

#include "alert_condition_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::alerts::check_condition_bytes(
        {reinterpret_cast<const char*>(data), size});
    return 0;
}
