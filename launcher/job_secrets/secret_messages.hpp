#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What became of one secret.
struct SecretAnswer {
    std::string name;
    std::string value;
    std::int32_t exit_code = 0;  ///< 0: `value` is it; else what() and hint() of the error
    std::string what, hint;
    bool operator==(const SecretAnswer&) const = default;
};

// A node's question to the head, and the answer; and what the process says that asks. The bytes are
// in docs/control-protocol.md. The readers throw Error{corrupt}. Pure.
std::string encode_names(const std::vector<std::string>& names);
std::vector<std::string> decode_names(std::string_view bytes);
std::string encode_answers(const std::vector<SecretAnswer>& answers);
std::vector<SecretAnswer> decode_answers(std::string_view bytes);

}  // namespace autolaunch::launcher
