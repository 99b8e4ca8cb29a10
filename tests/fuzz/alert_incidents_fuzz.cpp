// alerts.json, which an earlier start of the job has left.
//
//     alert_incidents_fuzz CORPUS tests/fuzz/seeds/alert_incidents

#include "alert_incidents_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::alerts::check_incident_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
