#include "spec/mapping_reader.hpp"

#include "base/text.hpp"

namespace autolaunch::launcher {

bool is_text(const Value& value) {
    return value.is_scalar() && !trim(value.text).empty() &&
           value.text.find('\0') == std::string::npos;
}

void MappingReader::complain(const Origin& at, const std::string& path,
                             const std::string& message) {
    errors_.push_back(error_at(at, path, message));
    good_ = false;
}

void MappingReader::expected(const Entry& entry, const std::string& what) {
    complain(entry.value.at, path_ + '.' + entry.key,
             "expected " + what + "; found " + describe(entry.value));
}

void MappingReader::unknown(const Entry& entry, const std::vector<std::string>& known) {
    const std::string near = nearest(entry.key, known);
    complain(entry.key_at, path_ + '.' + entry.key,
             "unknown key; " + (near.empty() ? "there are " + join(known, ", ")
                                             : "did you mean \"" + near + "\"?"));
}

}  // namespace autolaunch::launcher
