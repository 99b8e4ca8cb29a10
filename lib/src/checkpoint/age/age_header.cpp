#include "checkpoint/age/age_header.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>

namespace autolaunch::age {
namespace {

constexpr std::string_view kVersionLine = "age-encryption.org/v1";
constexpr std::string_view kStanzaStart = "-> ";
constexpr std::string_view kEndStart = "---";
constexpr std::size_t kColumns = 64;
constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

[[noreturn]] void refuse_file(const std::string& why) {
    throw Error(ErrorCode::corrupt, "not an age file: " + why);
}

/// The lines of a header, each of which ends with a newline.
class Lines {
public:
    explicit Lines(std::string_view text) : text_(text) {}

    std::string_view next() {
        const std::size_t end = text_.find('\n', at_);
        if (end == std::string_view::npos)
            refuse_file(text_.size() >= kMaxHeaderBytes ? "its header does not end within 64 KiB"
                                                        : "its header is cut off");
        const std::string_view line = text_.substr(at_, end - at_);
        at_ = end + 1;
        ++number_;
        return line;
    }
    std::size_t position() const { return at_; }
    std::string where() const { return "line " + std::to_string(number_) + " of its header "; }

private:
    std::string_view text_;
    std::size_t at_ = 0, number_ = 0;
};

std::vector<std::string> parse_arguments(std::string_view text, const Lines& lines) {
    std::vector<std::string> arguments(1);
    for (const char c : text) {
        if (c == ' ') {
            arguments.emplace_back();
        } else if (c < 33 || c > 126) {
            refuse_file(lines.where() + "has a character that cannot be there");
        } else {
            arguments.back() += c;
        }
    }
    for (const std::string& argument : arguments)
        if (argument.empty())
            refuse_file(lines.where() + "has an empty argument");
    return arguments;
}

// Full lines, and one that is not full and ends it; it may be empty.
std::vector<std::uint8_t> parse_body(Lines& lines) {
    std::vector<std::uint8_t> body, part;
    for (;;) {
        const std::string_view line = lines.next();
        if (line.size() > kColumns)
            refuse_file(lines.where() + "is too long");
        if (!decode_base64(line, part))
            refuse_file(lines.where() + "is not Base64");
        body.insert(body.end(), part.begin(), part.end());
        if (line.size() < kColumns)
            return body;
    }
}

}  // namespace

std::string encode_base64(crypto::Bytes bytes) {
    std::string text;
    text.reserve(bytes.size() / 3 * 4 + 4);  // it may be a secret, and growing leaves pieces behind
    std::uint32_t bits = 0;
    unsigned count = 0;
    for (const std::uint8_t byte : bytes) {
        bits = bits << 8 | byte;
        for (count += 8; count >= 6; count -= 6)
            text += kAlphabet[bits >> (count - 6) & 63];
        bits &= 63;
    }
    if (count > 0)
        text += kAlphabet[bits << (6 - count) & 63];
    return text;
}

bool decode_base64(std::string_view text, std::vector<std::uint8_t>& bytes) {
    bytes.clear();
    std::uint32_t bits = 0;
    unsigned count = 0;
    for (const char c : text) {
        const std::size_t value = kAlphabet.find(c);
        if (value == std::string_view::npos)
            return false;
        bits = bits << 6 | static_cast<std::uint32_t>(value);
        count += 6;
        if (count < 8)
            continue;
        count -= 8;
        bytes.push_back(static_cast<std::uint8_t>(bits >> count));
        bits &= (1U << count) - 1;
    }
    return count < 6 && bits == 0;
}

std::string authenticated_text(const std::vector<Stanza>& stanzas) {
    std::string text(kVersionLine);
    text += '\n';
    for (const Stanza& stanza : stanzas) {
        text += "->";
        for (const std::string& argument : stanza.arguments)
            text += ' ' + argument;
        text += '\n';
        std::string body = encode_base64(stanza.body);
        for (; body.size() >= kColumns; body.erase(0, kColumns))
            text += body.substr(0, kColumns) + '\n';
        text += body + '\n';
    }
    return text.append(kEndStart);
}

std::string format(const Header& header) {
    return authenticated_text(header.stanzas) + ' ' + encode_base64(header.mac) + '\n';
}

ParsedHeader parse_header(std::string_view start) {
    Lines lines(start.substr(0, kMaxHeaderBytes));
    if (!start.starts_with(kVersionLine))
        refuse_file("it does not start with " + std::string(kVersionLine));
    if (lines.next() != kVersionLine)
        refuse_file("it is of another version of the format");
    ParsedHeader parsed;
    for (;;) {
        std::string_view line = lines.next();
        if (line.starts_with(kStanzaStart)) {
            line.remove_prefix(kStanzaStart.size());
            Stanza stanza;
            stanza.arguments = parse_arguments(line, lines);
            stanza.body = parse_body(lines);
            parsed.header.stanzas.push_back(std::move(stanza));
            continue;
        }
        std::vector<std::uint8_t> mac;
        if (!line.starts_with(kEndStart))
            refuse_file(lines.where() + "starts neither with \"-> \" nor with \"--- \"");
        line.remove_prefix(kEndStart.size());
        if (!line.starts_with(' ') || !decode_base64(line.substr(1), mac) ||
            mac.size() != parsed.header.mac.size())
            refuse_file(lines.where() + "has no MAC of 32 bytes");
        if (parsed.header.stanzas.empty())
            refuse_file("its header has no recipient");
        std::copy(mac.begin(), mac.end(), parsed.header.mac.begin());
        parsed.bytes = lines.position();
        return parsed;
    }
}

}  // namespace autolaunch::age
