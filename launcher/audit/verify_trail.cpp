#include "audit/verify_trail.hpp"

#include "base/unique_fd.hpp"
#include "base/whole_number.hpp"
#include "site/audit_kinds.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <map>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostProblems = 1000;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

std::optional<std::uint64_t> number_in(const nlohmann::ordered_json& detail, const char* key) {
    const auto found = detail.find(key);
    return found == detail.end() || !found->is_number_unsigned()
               ? std::nullopt
               : std::optional(whole_number<std::uint64_t>(*found));
}

/// The lines of a file one after the other, without their newlines; the last may have none.
class Lines {
public:
    explicit Lines(const fs::path& path)
        : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
        if (!fd_)
            throw SystemError(errno, "read " + path.string());
    }
    bool next(std::string& line, bool& whole) {
        for (;;) {
            const std::size_t end = buffer_.find('\n', from_);
            if (end != buffer_.npos) {
                line.assign(buffer_, from_, end - from_);
                from_ = end + 1;
                whole = true;
                return true;
            }
            if (over_) {
                line = buffer_.substr(from_);
                from_ = buffer_.size();
                whole = false;
                return !line.empty();
            }
            fill();
        }
    }

private:
    void fill() {
        buffer_.erase(0, from_);
        from_ = 0;
        const std::size_t before = buffer_.size();
        buffer_.resize(before + kReadBytes);
        ssize_t got = 0;
        do
            got = ::read(fd_.get(), buffer_.data() + before, kReadBytes);
        while (got < 0 && errno == EINTR);
        if (got < 0)
            throw SystemError(errno, "read " + path_.string());
        buffer_.resize(before + static_cast<std::size_t>(got));
        over_ = got == 0;
    }

    fs::path path_;
    UniqueFd fd_;
    std::string buffer_;
    std::size_t from_ = 0;
    bool over_ = false;
};

/// From line to line over all files.
class Walk {
public:
    explicit Walk(TrailVerdict& verdict) : verdict_(verdict) {}

    void enter(const fs::path& file) {
        file_ = file.filename().string();
        number_ = 0;
    }
    void take(const std::string& text, bool whole);
    void end();

    std::function<void(const AuditLine&, const std::string&)> on_line;

private:
    std::string here() const { return fmt::format("{}:{}", file_, number_); }
    void problem(std::string text) {
        if (verdict_.problems.size() < kMostProblems)
            verdict_.problems.push_back(std::move(text));
    }
    void remark(std::string text) {
        if (verdict_.remarks.size() < kMostProblems)
            verdict_.remarks.push_back(std::move(text));
    }
    void begin(const AuditLine& line);
    void check_order(const AuditLine& line);
    void check_clock(const AuditLine& line);
    void check_actor(const AuditLine& line);
    void settle_torn(const AuditLine* next, bool at_end = false);

    TrailVerdict& verdict_;
    std::string file_;
    std::size_t number_ = 0;
    std::optional<AuditLine> before_;
    std::string digest_;  ///< of the line before, whatever it is
    std::string torn_;    ///< the place of a line that is none
    std::size_t torn_bytes_ = 0;
    std::optional<AuditLine> first_;
    std::map<std::uint64_t, std::string>
        expired_;  ///< digests of last lines of files that are gone
};

void Walk::settle_torn(const AuditLine* next, bool at_end) {
    if (torn_.empty())
        return;
    const bool is_told = next != nullptr && next->event == audit_kind::kRecovered &&
                         number_in(next->detail, "torn_bytes") == torn_bytes_;
    if (is_told)
        remark(torn_ + ": a process died while it wrote this line, and the next one says so");
    else if (next == nullptr)
        remark(torn_ +
               ": the last line is not whole: a process died while it wrote it, or is "
               "writing it");
    else
        problem(torn_ + " is no line of a trail" +
                (at_end ? "" : ", and the next one does not tell of it"));
    torn_.clear();
}

void Walk::begin(const AuditLine& line) {
    first_ = line;
    verdict_.uid = line.actor.uid;
    verdict_.user = line.actor.user;
    verdict_.chain = line.detail.contains("chain") && line.detail.at("chain").is_string()
                         ? line.detail.at("chain").get<std::string>()
                         : std::string();
    if (verdict_.chain.empty())
        problem(here() + " does not begin a trail: it does not name it");
    if (line.seq == 0 && (line.prev != no_audit_digest() || line.event != audit_kind::kOpened))
        problem(here() + " is number 0, and does not begin a trail");
}

void Walk::check_order(const AuditLine& line) {
    if (line.prev != digest_)
        problem(
            fmt::format("{}: the line before it is not the one that it was written after "
                        "(SHA-256 {}…, expected {}…)",
                        here(), digest_.substr(0, 16), line.prev.substr(0, 16)));
    if (line.seq == before_->seq + 1)
        return;
    if (line.seq > before_->seq + 1)
        problem(
            fmt::format("{}: lines {} to {} are missing", here(), before_->seq + 1, line.seq - 1));
    else
        problem(fmt::format("{}: number {} comes after number {}", here(), line.seq, before_->seq));
}

void Walk::check_clock(const AuditLine& line) {
    const auto now = parse_audit_time(line.time), then = parse_audit_time(before_->time);
    if (now && then && *now < *then)
        remark(fmt::format("{}: the clock went back by {:.3f} s", here(),
                           std::chrono::duration<double>(*then - *now).count()));
}

void Walk::check_actor(const AuditLine& line) {
    if (line.actor.uid != first_->actor.uid)
        problem(fmt::format("{}: of user {}, in the trail of user {}", here(), line.actor.uid,
                            first_->actor.uid));
}

void Walk::take(const std::string& text, bool whole) {
    ++number_;
    const auto line = parse_audit_line(text);
    if (line && !whole)
        remark(here() + ": the last line has no end yet");
    if (!line) {
        settle_torn(nullptr);
        torn_ = here();
        torn_bytes_ = text.size();
        if (before_ || first_)
            digest_ = audit_digest(text);
        return;
    }
    settle_torn(&*line);
    ++verdict_.lines;
    if (!before_) {
        begin(*line);
    } else {
        check_order(*line);
        check_clock(*line);
        check_actor(*line);
    }
    if (line->event == audit_kind::kExpired && line->detail.contains("sha256") &&
        line->detail.at("sha256").is_string())
        expired_[number_in(line->detail, "last").value_or(0)] =
            line->detail.at("sha256").get<std::string>();
    digest_ = audit_digest(text);
    if (!verdict_.digests.emplace(line->seq, digest_).second)
        problem(fmt::format("{}: number {} is there twice", here(), line->seq));
    before_ = *line;
    if (on_line)
        on_line(*line, text);
}

// Where the first file is not the first of the trail, a later line must tell what became of those
// before it.
void Walk::end() {
    settle_torn(nullptr, true);
    if (!first_) {
        problem(verdict_.file.string() + " has no line of a trail");
        return;
    }
    if (first_->seq > 0) {
        const auto gone = expired_.find(first_->seq - 1);
        if (gone == expired_.end())
            problem(
                fmt::format("it begins with number {}: what was before is missing, and no line "
                            "tells of its retention",
                            first_->seq));
        else if (gone->second != first_->prev)
            problem(
                fmt::format("number {} does not follow the line {} that was deleted when its "
                            "retention was over",
                            first_->seq, first_->seq - 1));
        else
            remark(fmt::format("lines before number {} were deleted when their retention was over",
                               first_->seq));
    }
    verdict_.head = AuditHead{verdict_.chain, before_->seq, digest_};
}

}  // namespace

TrailVerdict verify_files(
    const fs::path& current,
    const std::function<void(const AuditLine&, const std::string& text)>& on_line,
    const AnchoredHeads* heads) {
    TrailVerdict verdict;
    verdict.file = current;
    Walk walk(verdict);
    walk.on_line = on_line;
    for (const fs::path& file : audit_files(current)) {
        ++verdict.files;
        walk.enter(file);
        Lines lines(file);
        std::string line;
        bool whole = true;
        while (lines.next(line, whole))
            walk.take(line, whole);
    }
    walk.end();
    if (heads != nullptr)
        compare_with_anchors(verdict, *heads);
    return verdict;
}

void compare_with_anchors(TrailVerdict& verdict, const AnchoredHeads& heads) {
    const auto& digests = verdict.digests;
    for (auto at = heads.begin(); at != heads.end(); ++at) {
        const auto& [seq, anchor] = *at;
        if (anchor.uid && *anchor.uid != verdict.uid) {
            verdict.remarks.push_back(
                fmt::format("user {} has given {} a head for number {} of this trail, which is "
                            "user {}'s: not counted",
                            *anchor.uid, anchor.by, seq, verdict.uid));
            continue;
        }
        const auto line = digests.find(seq);
        if (line == digests.end()) {
            // Deleted when its retention was over, or cut off.
            if (!digests.empty() && seq > digests.rbegin()->first)
                verdict.problems.push_back(fmt::format(
                    "{} has number {}, and the file ends with number {}: lines were cut off",
                    anchor.by, seq, digests.rbegin()->first));
            continue;
        }
        if (line->second != anchor.digest) {
            verdict.problems.push_back(fmt::format(
                "number {} is another line than the one whose head {} has", seq, anchor.by));
            continue;
        }
        ++verdict.anchored;
        if (!verdict.anchored_through || *verdict.anchored_through < seq)
            verdict.anchored_through = seq;
    }
}

}  // namespace autolaunch::launcher
