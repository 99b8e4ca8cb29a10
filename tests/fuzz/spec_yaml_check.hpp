#pragma once
#include "spec/yaml_reader.hpp"

#include <cstdlib>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// A spec's or a site file's text: a value, or errors that name a place in it. Aborts where that is
/// not so. Whether it is a value.
inline bool check_yaml_bytes(std::string_view bytes) {
    std::vector<SpecError> errors;
    const Value value = read_yaml(bytes, "train.yaml", errors);
    for (const SpecError& error : errors)
        if (error.message.empty() || error.file != "train.yaml" || error.line < 0 ||
            to_string(error).empty())
            std::abort();
    return errors.empty() && !value.is_null();
}

}  // namespace autolaunch::launcher
