// What servers of data and archives say: times, addresses, keys of objects, entries.
//
//     remote_word_fuzz CORPUS tests/fuzz/seeds/remote_word

#include "remote_word_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_remote_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
