#pragma once
#include <nlohmann/json_fwd.hpp>

#include <string_view>

namespace autolaunch::launcher {

/// The value of a pickle that holds plain values alone: numbers, texts, lists, tuples, dictionaries
/// with keys that are texts. Nothing is looked up, made or called: an opcode that would (GLOBAL,
/// REDUCE, …) is an error, as are a pickle of more than 64 levels or of more than 1,000,000
/// values. Throws Error{corrupt}, which names the byte. Pure.
nlohmann::json read_pickle(std::string_view bytes);

}  // namespace autolaunch::launcher
