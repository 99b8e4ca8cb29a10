// What Vault, or who has its certificate, answers.
//
//     vault_answer_fuzz CORPUS tests/fuzz/seeds/vault_answer

#include "vault_answer_check.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    autolaunch::launcher::check_vault_bytes({reinterpret_cast<const char*>(data), size});
    return 0;
}
