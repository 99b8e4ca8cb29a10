// Words of MPI ranks, autolaunch-pmixd and stand-ins, and programs' files.
//
//     mpi_word_fuzz CORPUS tests/fuzz/seeds/mpi_word

#include "mpi_word_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_mpi_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
