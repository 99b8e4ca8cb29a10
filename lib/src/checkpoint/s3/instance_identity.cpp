// Credentials of the role that a virtual machine of AWS has, from its metadata (IMDSv2).
#include "base/private_way.hpp"
#include "base/refuse.hpp"
#include "checkpoint/s3/credential_http.hpp"
#include "checkpoint/s3/credential_source.hpp"

#include <autolaunch/error.hpp>

#include <string>
#include <string_view>

namespace autolaunch::s3 {
namespace {

constexpr char kService[] = "http://169.254.169.254", kService6[] = "http://[fd00:ec2::254]",
               kRoles[] = "/latest/meta-data/iam/security-credentials/";
// Where there is no such machine nobody may answer at all.
constexpr std::chrono::seconds kIsThere(1), kAnswers(3);

std::string service_of(const Environment& environment) {
    std::string service = value_of(environment, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (service.empty())
        return value_of(environment, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE") == "IPv6" ? kService6
                                                                                         : kService;
    if (service.ends_with('/'))
        service.pop_back();
    if (service != kService && service != kService6)
        if (const std::string why = why_not_private(service); !why.empty())
            refuse("AWS_EC2_METADATA_SERVICE_ENDPOINT is " + service + ": " + why,
                   "write https://, or an address of this machine");
    return service;
}

}  // namespace

AskForCredentials ask_instance(const Environment& environment) {
    const std::string service = service_of(environment);
    return [service](const Deadline& deadline) {
        const auto at_most = [&](std::chrono::seconds time) {
            return deadline.remaining() < time ? deadline : Deadline::after(time);
        };
        CredentialQuestion question{.method = "PUT", .url = service + "/latest/api/token"};
        question.whom = "the metadata service at " + service;
        question.headers = {{"x-aws-ec2-metadata-token-ttl-seconds", "300"}};
        const std::string token = parse_metadata_token(ask(question, at_most(kIsThere)));
        question.method = "GET";
        question.headers = {{"x-aws-ec2-metadata-token", token}};
        question.url = service + kRoles;
        const std::string role = parse_role_name(ask(question, at_most(kAnswers)));
        question.url += uri_encode(role, false);
        return parse_credentials_json(ask(question, at_most(kAnswers)));
    };
}

}  // namespace autolaunch::s3
