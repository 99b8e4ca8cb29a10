#include "checkpoint/commit/writer_claim.hpp"

#include "base/hash.hpp"
#include "base/text.hpp"
#include "checkpoint/format/json.hpp"

#include <algorithm>
#include <cerrno>

namespace autolaunch {

namespace {

constexpr std::uint64_t kMaxClaimBytes = 1 << 16;
constexpr std::size_t kTokenBytes = 8;

std::string describe(const WriterClaim& claim) {
    if (claim.writer.run_id.empty())
        return "a process without a launcher";
    return "run " + claim.writer.run_id + ", generation " + std::to_string(claim.writer.generation);
}

[[noreturn]] void throw_lost(const std::filesystem::path& directory, const std::string& to,
                             const WriterClaim& mine) {
    throw Error(ErrorCode::aborted,
                directory.string() + " is written by " + to + " now; this is " + describe(mine) +
                    ", which saves there no more",
                "stop one of the two, or give each a checkpoint directory of its own");
}

}  // namespace

std::string WriterClaim::to_text() const {
    return json_text({{"format", "autolaunch-writer"},
                      {"epoch", epoch},
                      {"run_id", writer.run_id},
                      {"generation", writer.generation},
                      {"token", token}}) +
           "\n";
}

WriterClaim WriterClaim::parse(std::string_view text) {
    const auto parsed = parse_strictly(text, kClaimName);
    const JsonReader reader(parsed, kClaimName);
    if (reader.field("format").text() != "autolaunch-writer")
        reader.fail("is of another format");
    WriterClaim claim;
    claim.epoch = static_cast<std::uint64_t>(reader.field("epoch").count());
    claim.writer.run_id = reader.field("run_id").text();
    claim.writer.generation = reader.field("generation").count();
    claim.token = reader.field("token").text();
    return claim;
}

std::optional<UnfinishedName> UnfinishedName::parse(std::string_view name) {
    constexpr std::string_view kStart = "step-", kEnd = ".tmp";
    if (!name.starts_with(kStart) || !name.ends_with(kEnd))
        return std::nullopt;
    name.remove_suffix(kEnd.size());
    const std::size_t dot = name.find('.');
    const std::string_view mark =
        dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
    const std::size_t dash = mark.find('-');
    long long epoch = 0;
    if (dash == std::string_view::npos || !parse_integer(mark.substr(0, dash), epoch) || epoch < 0)
        return UnfinishedName{};
    return UnfinishedName{static_cast<std::uint64_t>(epoch), std::string(mark.substr(dash + 1))};
}

WriterFence::WriterFence(Storage& storage, std::filesystem::path directory, WriterIdentity identity)
    : storage_(storage),
      directory_(std::move(directory)),
      mine_{0, std::move(identity), random_hex(kTokenBytes)} {}

std::optional<WriterClaim> WriterFence::read() const {
    try {
        return WriterClaim::parse(read_whole(storage_, directory_ / kClaimName, kMaxClaimBytes));
    } catch (const SystemError& error) {
        if (error.error_number() != ENOENT)
            throw;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::corrupt)
            throw;  // torn: nobody holds what nobody can read
    }
    return std::nullopt;
}

void WriterFence::take() {
    if (held_)
        return require_held();
    const auto before = read();
    if (before && before->writer.run_id == mine_.writer.run_id && !mine_.writer.run_id.empty() &&
        before->writer.generation > mine_.writer.generation)
        throw_lost(directory_, describe(*before), mine_);
    mine_.epoch = before ? before->epoch : 0;
    for (const std::string& name : storage_.list(directory_))
        if (const auto unfinished = UnfinishedName::parse(name))
            mine_.epoch = std::max(mine_.epoch, unfinished->epoch);
    ++mine_.epoch;
    const std::filesystem::path temporary =
        directory_ / (std::string(kClaimName) + "." + mine_.token);
    write_whole(storage_, temporary, mine_.to_text());
    storage_.rename(temporary, directory_ / kClaimName);
    storage_.sync_directory(directory_);
    held_ = true;
    require_held();  // another one may have taken it at the same time, and the last rename decides
}

void WriterFence::require_held() {
    const auto now = read();
    if (now && now->token == mine_.token)
        return;
    throw_lost(directory_, now ? describe(*now) : "nobody that can be read", mine_);
}

bool WriterFence::is_of_this_run() const {
    try {
        const auto now = read();
        return now && !mine_.writer.run_id.empty() && now->writer.run_id == mine_.writer.run_id;
    } catch (const Error&) {
        return false;
    }
}

bool WriterFence::is_of_others() const {
    const auto now = read();
    return now && now->token != mine_.token && now->writer.run_id != mine_.writer.run_id;
}

bool WriterFence::may_delete(std::string_view unfinished_name) const {
    const auto name = UnfinishedName::parse(unfinished_name);
    return name && (name->epoch < mine_.epoch ||
                    (name->epoch == mine_.epoch && name->token == mine_.token));
}

std::string WriterFence::unfinished_name(const std::string& published_name) const {
    return published_name + "." + std::to_string(mine_.epoch) + "-" + mine_.token + ".tmp";
}

}  // namespace autolaunch
