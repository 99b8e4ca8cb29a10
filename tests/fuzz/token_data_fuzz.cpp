// A file of tokens, and the state of a reader.
//
//     token_data_fuzz CORPUS tests/fuzz/seeds/token_data

#include "token_data_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::data::check_token_data({reinterpret_cast<const char*>(data), size});
    return 0;
}
