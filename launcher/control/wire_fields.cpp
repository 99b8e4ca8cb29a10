#include "control/wire_fields.hpp"

#include <autolaunch/error.hpp>

#include <limits>

namespace autolaunch::launcher::control {

void refuse_message(const std::string& what) {
    throw Error(ErrorCode::corrupt, "control message: " + what);
}

void FieldWriter::put_count(std::size_t count) {
    if (count > std::numeric_limits<std::uint32_t>::max())
        throw Error(ErrorCode::invalid_argument, "a field of a control message has over 4 GiB");
    put(static_cast<std::uint32_t>(count));
}

void FieldWriter::check_items(std::size_t count) {
    if (count > kMaxItems)
        throw Error(ErrorCode::invalid_argument,
                    "a list of a control message has " + std::to_string(count) +
                        " items; the most is " + std::to_string(kMaxItems));
}

std::string_view FieldReader::take(std::size_t bytes) {
    if (bytes > left_.size())
        refuse_message("it ends within a field (" + std::to_string(bytes) + " bytes needed, " +
                       std::to_string(left_.size()) + " left)");
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
}

void FieldReader::get(bool& value) {
    std::uint8_t byte = 0;
    get(byte);
    if (byte > 1)
        refuse_message("a yes or no that is neither 0 nor 1");
    value = byte == 1;
}

void FieldReader::get(Cause& cause) {
    std::uint8_t number = 0;
    get(number);
    if (number >= kCauses)
        refuse_message("a cause that does not exist");
    cause = static_cast<Cause>(number);
}

void FieldReader::get(Certainty& certainty) {
    std::uint8_t number = 0;
    get(number);
    if (number > static_cast<std::uint8_t>(Certainty::possible))
        refuse_message("a certainty that does not exist");
    certainty = static_cast<Certainty>(number);
}

void FieldReader::get(Doing& doing) {
    std::uint8_t number = 0;
    get(number);
    if (number > static_cast<std::uint8_t>(Doing::awaits_data))
        refuse_message("a doing that does not exist");
    doing = static_cast<Doing>(number);
}

void FieldReader::get(std::string& text) {
    std::uint32_t bytes = 0;
    get(bytes);
    text = take(bytes);
}

std::size_t FieldReader::get_count(std::size_t item_bytes) {
    std::uint32_t count = 0;
    get(count);
    if (count > kMaxItems)
        refuse_message("a list of " + std::to_string(count) + " items");
    if (count * item_bytes > left_.size())
        refuse_message("a list that is longer than the message");
    return count;
}

}  // namespace autolaunch::launcher::control
