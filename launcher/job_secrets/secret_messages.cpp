#include "job_secrets/secret_messages.hpp"

#include "control/wire_fields.hpp"

#include <concepts>
#include <tuple>
#include <type_traits>

namespace autolaunch::launcher {

template <class T>
concept IsSecretAnswer = std::same_as<std::remove_const_t<T>, SecretAnswer>;

// Found by the fields' reader and writer, where the type is.
auto fields(IsSecretAnswer auto& m) {
    return std::tie(m.name, m.value, m.exit_code, m.what, m.hint);
}

namespace {

template <class T>
std::string encode_list(const std::vector<T>& list) {
    std::string bytes;
    control::FieldWriter(bytes).put(list);
    return bytes;
}

template <class T>
std::vector<T> decode_list(std::string_view bytes) {
    std::vector<T> list;
    control::FieldReader reader(bytes);
    reader.get(list);
    if (reader.left() > 0)
        control::refuse_message("bytes behind a list of secrets");
    return list;
}

}  // namespace

std::string encode_names(const std::vector<std::string>& names) { return encode_list(names); }
std::vector<std::string> decode_names(std::string_view bytes) {
    return decode_list<std::string>(bytes);
}
std::string encode_answers(const std::vector<SecretAnswer>& answers) {
    return encode_list(answers);
}
std::vector<SecretAnswer> decode_answers(std::string_view bytes) {
    return decode_list<SecretAnswer>(bytes);
}

}  // namespace autolaunch::launcher
