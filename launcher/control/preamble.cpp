#include "control/preamble.hpp"

#include "control/wire_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace autolaunch::launcher {
namespace {

// Magic, protocol and role keep their places in every version to come; what follows may change with
// the version.
constexpr std::string_view kMagic = "autolnch";
constexpr std::size_t kStableBytes = kMagic.size() + 2 + 1;
constexpr std::size_t kFixedBytes = kStableBytes + 1 + 8 + 2;

constexpr std::array<std::pair<std::string_view, const char*>, 8> kOtherProtocols = {{
    {"GET ", "HTTP"},
    {"POST ", "HTTP"},
    {"HEAD ", "HTTP"},
    {"OPTIONS ", "HTTP"},
    {"HTTP/", "HTTP"},
    {"PRI * HTTP/2", "HTTP/2"},
    {"SSH-", "SSH"},
    {"\x16\x03", "bare TLS"},
}};

std::string printable(std::string_view bytes) {
    std::string text;
    for (const char c : bytes)
        text += c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02x}", c & 0xFF);
    return text;
}

PreambleVerdict refused(bool is_autolaunch, std::string reason) {
    PreambleVerdict verdict;
    verdict.kind = PreambleVerdict::Kind::refused;
    verdict.is_autolaunch = is_autolaunch;
    verdict.reason = std::move(reason);
    return verdict;
}

PreambleVerdict stranger(std::string_view arrived) {
    for (const auto& [begin, protocol] : kOtherProtocols)
        if (arrived.starts_with(begin))
            return refused(false, fmt::format("it speaks {}, not autolaunch", protocol));
    return refused(false, fmt::format("it does not speak autolaunch: it began with \"{}\"",
                                      printable(arrived)));
}

PreambleVerdict incomplete(std::size_t wanted) {
    PreambleVerdict verdict;
    verdict.wanted = wanted;
    return verdict;
}

std::uint8_t source_number(const std::optional<JobKey::Source>& source) {
    return source ? static_cast<std::uint8_t>(static_cast<int>(*source) + 1) : std::uint8_t{0};
}

}  // namespace

std::string encode_preamble(const Preamble& preamble) {
    std::string bytes(kMagic);
    control::FieldWriter writer(bytes);
    writer.put(preamble.protocol);
    writer.put(static_cast<std::uint8_t>(preamble.role));
    writer.put(source_number(preamble.key_source));
    writer.put(preamble.job_digest);
    writer.put(static_cast<std::uint16_t>(preamble.credential.size()));
    return bytes + preamble.credential;
}

PreambleVerdict judge_preamble(std::string_view arrived, const Preamble& ours) {
    const std::size_t compared = std::min(arrived.size(), kMagic.size());
    if (arrived.substr(0, compared) != kMagic.substr(0, compared))
        return stranger(arrived);
    if (arrived.size() < kStableBytes)
        return incomplete(kFixedBytes);

    control::FieldReader stable(arrived.substr(kMagic.size(), kStableBytes - kMagic.size()));
    PreambleVerdict verdict;
    std::uint8_t role = 0;
    stable.get(verdict.theirs.protocol);
    stable.get(role);
    if (verdict.theirs.protocol != ours.protocol)
        return refused(
            true, fmt::format(
                      "it speaks version {} of the control protocol, this node version {}: install "
                      "the same autolaunch on all nodes",
                      verdict.theirs.protocol, ours.protocol));
    if (arrived.size() < kFixedBytes)
        return incomplete(kFixedBytes);

    control::FieldReader reader(arrived.substr(kStableBytes));
    std::uint8_t source = 0;
    std::uint16_t credential_bytes = 0;
    reader.get(source);
    reader.get(verdict.theirs.job_digest);
    reader.get(credential_bytes);
    if (verdict.theirs.job_digest != ours.job_digest)
        return refused(true, "it belongs to another job");
    const bool is_head = role == static_cast<std::uint8_t>(ControlRole::head);
    if (!is_head && role != static_cast<std::uint8_t>(ControlRole::node))
        return refused(
            true, fmt::format("it says that it is a {}, which is neither head nor node", role));
    verdict.theirs.role = static_cast<ControlRole>(role);
    if (verdict.theirs.role == ours.role)
        return refused(true, is_head ? "it is another head of this job"
                                     : "it is another node of this job, not its head");
    if (credential_bytes > kCredentialLimit || (credential_bytes > 0 && !is_head))
        return refused(true,
                       fmt::format("it announced a credential of {} bytes", credential_bytes));
    if (source > source_number(JobKey::Source::run_directory) || is_head != (source > 0))
        return refused(
            true, fmt::format("it has its key from {}, which this version does not know", source));
    if (arrived.size() < kFixedBytes + credential_bytes)
        return incomplete(kFixedBytes + credential_bytes);

    if (source > 0)
        verdict.theirs.key_source = static_cast<JobKey::Source>(source - 1);
    verdict.theirs.credential = arrived.substr(kFixedBytes, credential_bytes);
    verdict.kind = PreambleVerdict::Kind::welcome;
    return verdict;
}

}  // namespace autolaunch::launcher
