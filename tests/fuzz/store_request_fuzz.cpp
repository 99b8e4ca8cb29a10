// Bytes from a client of the store.
//
//     store_request_fuzz CORPUS tests/fuzz/seeds/store_request

#include "store_request_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::store::check_request_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
