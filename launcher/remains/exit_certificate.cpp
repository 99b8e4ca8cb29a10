#include "remains/exit_certificate.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kCertificateVersion = 1;
constexpr std::size_t kMostNamed = 8;

Json remnants_json(const std::vector<Remnant>& remnants) {
    Json list = Json::array();
    for (const Remnant& remnant : remnants)
        list.push_back({{"kind", remnant.kind}, {"what", remnant.what}, {"why", remnant.why}});
    return list;
}

}  // namespace

std::string certificate_json(const ExitCertificate& certificate) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(certificate.at);
    Json json = {
        {"format", kCertificateVersion},
        {"run_id", certificate.run_id},
        {"node", certificate.node},
        {"node_rank", certificate.node_rank},
        {"by", certificate.by},
        {"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(
                                                          seconds.time_since_epoch().count())))},
        {"exit_code", certificate.exit_code ? Json(*certificate.exit_code) : Json()},
        {"clean", certificate.clean()},
        {"gone", Json::array()}};
    for (const GoneProof& proof : certificate.gone)
        json["gone"].push_back(
            {{"kind", proof.kind}, {"count", proof.count}, {"proof", proof.proof}});
    json["left"] = remnants_json(certificate.left);
    json["not_checked"] = remnants_json(certificate.not_checked);
    json["unclaimed"] = remnants_json(certificate.unclaimed);
    json["drain"] = certificate.drain ? Json({{"command", certificate.drain->command},
                                              {"done", certificate.drain->done},
                                              {"why_not", certificate.drain->why_not}})
                                      : Json();
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string describe_left(const std::vector<Remnant>& left) {
    if (left.empty())
        return {};
    std::string text = fmt::format(
        "{} of the job {} still there: ",
        left.size() == 1 ? std::string("something") : fmt::format("{} things", left.size()),
        left.size() == 1 ? "is" : "are");
    for (std::size_t i = 0; i < left.size() && i < kMostNamed; ++i) {
        text += (i == 0 ? "" : ", ") + left[i].kind + " " + left[i].what;
        if (!left[i].why.empty())
            text += " (" + left[i].why + ")";
    }
    return left.size() > kMostNamed ? text + fmt::format(" and {} more", left.size() - kMostNamed)
                                    : text;
}

std::string drain_command(const std::string& node, const std::string& reason) {
    std::string quoted = reason;
    std::replace_if(
        quoted.begin(), quoted.end(),
        [](char c) { return c < ' ' || c > '~' || c == '\'' || c == '"' || c == '\\' || c == '$'; },
        '_');
    return fmt::format("scontrol update NodeName={} State=DRAIN Reason='{}'", node, quoted);
}

}  // namespace autolaunch::launcher
