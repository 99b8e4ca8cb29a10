#include "checkpoint/s3/s3_answers.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

namespace autolaunch::s3 {
namespace {

constexpr std::uint64_t kMaxParts = 10'000;
constexpr std::size_t kMaxShown = 200;

[[noreturn]] void refuse_answer(const std::string& why) {
    throw Error(ErrorCode::corrupt, "the S3 server's answer " + why,
                "is the endpoint really one of S3?");
}

/// The elements <name>…</name> of S3's answers, which have no attributes below the root, and never
/// nest in themselves.
std::vector<std::string_view> elements(std::string_view xml, const std::string& name) {
    const std::string open = '<' + name + '>', close = "</" + name + '>';
    std::vector<std::string_view> found;
    for (std::size_t at = xml.find(open); at != std::string_view::npos; at = xml.find(open, at)) {
        at += open.size();
        const std::size_t end = xml.find(close, at);
        if (end == std::string_view::npos)
            refuse_answer("is cut off within " + open);
        found.push_back(xml.substr(at, end - at));
        at = end + close.size();
    }
    return found;
}

std::optional<std::string_view> element(std::string_view xml, const std::string& name) {
    const auto all = elements(xml, name);
    return all.empty() ? std::nullopt : std::optional(all.front());
}

std::string unescaped(std::string_view text) {
    static const std::map<std::string_view, char> kEntities = {
        {"amp", '&'},   {"lt", '<'},  {"gt", '>'},  {"quot", '"'},
        {"apos", '\''}, {"#34", '"'}, {"#39", '\''}};
    std::string plain;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const std::size_t end = text[at] == '&' ? text.find(';', at) : std::string_view::npos;
        const auto entity = end == std::string_view::npos
                                ? kEntities.end()
                                : kEntities.find(text.substr(at + 1, end - at - 1));
        plain += entity == kEntities.end() ? text[at] : entity->second;
        if (entity != kEntities.end())
            at = end;
    }
    return plain;
}

std::string url_decoded(std::string_view text) {
    std::string plain;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '+') {
            plain += ' ';
        } else if (text[at] != '%') {
            plain += text[at];
        } else {
            const std::string digits(text.substr(at + 1, 2));
            if (digits.size() != 2 ||
                digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
                refuse_answer("has a key that is not encoded right");
            plain += static_cast<char>(std::strtoul(digits.c_str(), nullptr, 16));
            at += 2;
        }
    }
    return plain;
}

std::string key_in(std::string_view xml, const char* name) {
    const auto key = element(xml, name);
    if (!key)
        refuse_answer(std::string("lists something without a ") + name);
    return url_decoded(unescaped(*key));
}

std::string printable(std::string_view text) {
    std::string line = unescaped(text.substr(0, kMaxShown));
    for (char& c : line)
        if (c < 32 || c > 126)
            c = ' ';
    return line;
}

bool is_truncated(std::string_view xml) {
    return element(xml, "IsTruncated").value_or("false") == "true";
}

}  // namespace

ListPage parse_list(std::string_view xml) {
    if (xml.find("<ListBucketResult") == std::string_view::npos)
        refuse_answer("to a listing is no listing");
    ListPage page;
    for (const auto contents : elements(xml, "Contents")) {
        long long bytes = -1;
        const auto size = element(contents, "Size");
        if (!size || !parse_integer(*size, bytes) || bytes < 0)
            refuse_answer("lists an object without a size");
        page.objects.push_back({key_in(contents, "Key"), static_cast<std::uint64_t>(bytes),
                                unescaped(element(contents, "ETag").value_or("")),
                                unescaped(element(contents, "LastModified").value_or(""))});
    }
    for (const auto common : elements(xml, "CommonPrefixes"))
        page.prefixes.push_back(key_in(common, "Prefix"));
    if (is_truncated(xml)) {
        page.next = unescaped(element(xml, "NextContinuationToken").value_or(""));
        if (page.next.empty())
            refuse_answer("says that there is more to list, but not where");
    }
    return page;
}

UploadPage parse_uploads(std::string_view xml) {
    if (xml.find("<ListMultipartUploadsResult") == std::string_view::npos)
        refuse_answer("to a listing is no listing");
    UploadPage page;
    for (const auto upload : elements(xml, "Upload"))
        page.uploads.push_back({key_in(upload, "Key"),
                                unescaped(element(upload, "UploadId").value_or("")),
                                printable(element(upload, "ChecksumAlgorithm").value_or(""))});
    if (is_truncated(xml)) {
        page.next_key = key_in(xml, "NextKeyMarker");
        page.next_upload_id = unescaped(element(xml, "NextUploadIdMarker").value_or(""));
        if (page.next_key.empty())
            refuse_answer("says that there is more to list, but not where");
    }
    return page;
}

PartPage parse_parts(std::string_view xml) {
    if (xml.find("<ListPartsResult") == std::string_view::npos)
        refuse_answer("to a listing is no listing");
    PartPage page;
    for (const auto part : elements(xml, "Part")) {
        long long number = 0, bytes = -1;
        if (!parse_integer(element(part, "PartNumber").value_or(""), number) || number < 1 ||
            !parse_integer(element(part, "Size").value_or(""), bytes) || bytes < 0)
            refuse_answer("lists a part without its number or its size");
        page.parts.push_back({static_cast<std::uint64_t>(number), static_cast<std::uint64_t>(bytes),
                              unescaped(element(part, "ETag").value_or("")),
                              unescaped(element(part, "ChecksumSHA256").value_or(""))});
    }
    if (is_truncated(xml)) {
        long long next = 0;
        if (!parse_integer(element(xml, "NextPartNumberMarker").value_or(""), next) || next < 1)
            refuse_answer("says that there is more to list, but not where");
        page.next = std::to_string(next);
    }
    return page;
}

std::string parse_upload_id(std::string_view xml) {
    const auto id = element(xml, "UploadId");
    if (!id || id->empty())
        refuse_answer("has no UploadId");
    return unescaped(*id);
}

std::vector<std::string> parse_elements(std::string_view xml, const std::string& parent,
                                        const std::vector<std::string>& names) {
    std::vector<std::string> texts;
    const auto within = element(xml, parent);
    if (!within)
        return texts;
    for (const std::string& name : names)
        texts.push_back(unescaped(element(*within, name).value_or("")));
    return texts;
}

Problem parse_problem(std::string_view xml) {
    const std::size_t start = xml.find("<Error>");
    if (start == std::string_view::npos)
        return {};
    try {
        return {printable(element(xml, "Code").value_or("")),
                printable(element(xml, "Message").value_or(""))};
    } catch (const Error&) {
        return {"unreadable", ""};
    }
}

std::string advice(int status, std::string_view code) {
    static const std::map<std::string_view, const char*> kAdvice = {
        {"NoSuchBucket", "make the bucket, or correct its name"},
        {"AccessDenied", "the key may not do this: see the bucket's policy"},
        {"InvalidAccessKeyId",
         "the server does not know this key: see AWS_ACCESS_KEY_ID or AWS_PROFILE"},
        {"SignatureDoesNotMatch",
         "the secret is wrong for this key, or AWS_REGION is not the bucket's"},
        {"AuthorizationHeaderMalformed", "AWS_REGION is not the bucket's"},
        {"PermanentRedirect", "AWS_REGION or the endpoint is not the bucket's"},
        {"RequestTimeTooSkewed", "this machine's clock is wrong"},
        {"ExpiredToken", "the session's credentials have ended; get new ones"},
        {"QuotaExceeded", "the bucket's or the user's quota is used up"},
        {"NotImplemented", "the server lacks this part of S3"},
    };
    if (const auto found = kAdvice.find(code); found != kAdvice.end())
        return found->second;
    if (status / 100 == 3)
        return kAdvice.at("PermanentRedirect");
    if (status == 403)
        return "the key may not do this, or its secret is wrong";
    return {};
}

std::string complete_request(const std::vector<std::string>& part_tags,
                             const std::vector<std::string>& part_sha256) {
    std::string text = "<CompleteMultipartUpload>";
    for (std::size_t i = 0; i < part_tags.size(); ++i) {
        text += "<Part><PartNumber>" + std::to_string(i + 1) + "</PartNumber><ETag>" +
                part_tags[i] + "</ETag>";
        if (i < part_sha256.size())
            text += "<ChecksumSHA256>" + part_sha256[i] + "</ChecksumSHA256>";
        text += "</Part>";
    }
    return text + "</CompleteMultipartUpload>";
}

std::uint64_t part_bytes_for(std::uint64_t total_bytes, std::uint64_t wanted) {
    constexpr std::uint64_t kUnit = 4 << 20;  // a block of a checkpoint's digests is in one part
    const std::uint64_t least = (total_bytes / kMaxParts / kUnit + 1) * kUnit;
    return total_bytes / wanted >= kMaxParts ? std::max(wanted, least) : wanted;
}

bool is_worth_retrying(int status, std::string_view code) {
    if (code == "RequestTimeout" || code == "SlowDown" || code == "InternalError" ||
        code == "OperationAborted" || code == "ConditionalRequestConflict")
        return true;
    return status == 0 || status == 408 || status == 429 || status == 500 || status == 502 ||
           status == 503 || status == 504;
}

std::chrono::milliseconds retry_delay(int attempt, double random) {
    constexpr double kFirstMs = 100, kMostMs = 10'000;
    double most = kFirstMs;
    for (int i = 2; i < attempt && most < kMostMs; ++i)
        most *= 2;
    return std::chrono::milliseconds(
        static_cast<long long>(std::min(most, kMostMs) * (0.5 + random / 2)));
}

}  // namespace autolaunch::s3
