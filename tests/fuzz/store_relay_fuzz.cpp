// Bytes from a node's store relay: whatever they are, they cost that node alone.
//
//     store_relay_fuzz CORPUS tests/fuzz/seeds/store_relay

#include "store_relay_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::store_relay::check_relay_bytes(
        {reinterpret_cast<const char*>(data), size});
    return 0;
}
