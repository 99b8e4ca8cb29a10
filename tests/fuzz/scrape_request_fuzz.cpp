// What a stranger asks at /metrics.
//
//     scrape_request_fuzz CORPUS tests/fuzz/seeds/scrape_request

#include "scrape_request_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_scrape_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
