// What a bucket's server answers, or who has its certificate.
//
//     s3_answer_fuzz CORPUS tests/fuzz/seeds/s3_answer

#include "s3_answer_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::s3::check_s3_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
