// events.jsonl and restarts.json of a run directory that somebody gave us.
//
//     run_record_fuzz CORPUS tests/fuzz/seeds/run_record

#include "run_record_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_run_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
