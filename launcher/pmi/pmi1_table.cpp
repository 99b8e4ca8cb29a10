#include "pmi/pmi1_table.hpp"

#include "base/text.hpp"

#include <algorithm>

namespace autolaunch::launcher {

namespace {

using Outcome = Pmi1Table::Outcome;

/// The value of " key=" in a line; a value has no blank, but for that of "value", which is the rest
/// of the line.
std::optional<std::string_view> field(std::string_view line, std::string_view key) {
    for (std::size_t at = line.find(key); at != std::string_view::npos;
         at = line.find(key, at + 1)) {
        const std::size_t equals = at + key.size();
        const bool starts_word = at == 0 || line[at - 1] == ' ';
        if (!starts_word || equals >= line.size() || line[equals] != '=')
            continue;
        const std::string_view rest = line.substr(equals + 1);
        return key == "value" ? rest : rest.substr(0, rest.find(' '));
    }
    return std::nullopt;
}

Outcome reply(int local_rank, std::string line) {
    Outcome outcome;
    outcome.replies.emplace_back(local_rank, std::move(line) + '\n');
    return outcome;
}

Outcome broken(std::string what) {
    Outcome outcome;
    outcome.broken = std::move(what);
    return outcome;
}

// Printable, short, and no control characters: it goes to a person.
std::string quoted(std::string_view line) {
    constexpr std::size_t kShown = 60;
    std::string text(line.substr(0, kShown));
    for (char& c : text)
        if (c < ' ' || c > '~')
            c = '?';
    return '"' + text + (line.size() > kShown ? "…\"" : "\"");
}

void append_text(std::string& blob, std::string_view text) {
    blob += std::to_string(text.size());
    blob += ':';
    blob += text;
}

// "5:hello" at the front of `blob`, which is cut down to the rest.
bool take_text(std::string_view& blob, std::string& text) {
    const std::size_t colon = blob.find(':');
    long long size = 0;
    if (colon == std::string_view::npos || !parse_integer(blob.substr(0, colon), size) ||
        size < 0 || static_cast<std::size_t>(size) > blob.size() - colon - 1)
        return false;
    text = blob.substr(colon + 1, static_cast<std::size_t>(size));
    blob.remove_prefix(colon + 1 + static_cast<std::size_t>(size));
    return true;
}

}  // namespace

Pmi1Table::Pmi1Table(int local_size, int world_size, std::string kvs_name,
                     std::string process_mapping)
    : ranks_(index(local_size)), world_size_(world_size), kvs_name_(std::move(kvs_name)) {
    table_["PMI_process_mapping"] = std::move(process_mapping);
}

void Pmi1Table::begin(int local_rank) {
    Rank& rank = ranks_[index(local_rank)];
    if (rank.in_barrier)
        --waiting_;
    rank = {};
}

Outcome Pmi1Table::on_line(int local_rank, std::string_view line) {
    Rank& rank = ranks_[index(local_rank)];
    if (line.starts_with("mcmd=")) {
        rank.in_long_command = true;
        return {};
    }
    if (rank.in_long_command) {
        if (line != "endcmd")
            return {};
        rank.in_long_command = false;
        Outcome outcome = reply(
            local_rank, "cmd=spawn_result rc=-1 msg=autolaunch_starts_no_processes_on_request");
        outcome.refused =
            "called MPI_Comm_spawn, and was refused: autolaunch starts no ranks on request. Start "
            "them as ranks of the job, or the program by its own mpiexec";
        return outcome;
    }
    const auto command = line.starts_with("cmd=") ? field(line, "cmd") : std::nullopt;
    if (!command)
        return broken("sent what is no PMI-1: " + quoted(line));
    if (*command == "init") {
        if (field(line, "pmi_version") != "1")
            return reply(local_rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1");
        if (rank.initialised && !rank.finalised)
            return broken(
                "has started a second process that calls MPI_Init, and the first has not called "
                "MPI_Finalize: two programs cannot be one rank");
        rank.initialised = true;
        rank.finalised = false;
        return reply(local_rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
    }
    if (!rank.initialised)
        return broken("sent " + quoted(line) + " before PMI-1's init");
    if (*command == "put")
        return put(local_rank, line);
    if (*command == "get")
        return get(local_rank, line);
    if (*command == "barrier_in")
        return enter_barrier(local_rank);
    if (*command == "get_maxes")
        return reply(local_rank, "cmd=maxes kvsname_max=" + std::to_string(kNameLimit) +
                                     " keylen_max=" + std::to_string(kKeyLimit) +
                                     " vallen_max=" + std::to_string(kValueLimit) + " rc=0");
    if (*command == "get_appnum")
        return reply(local_rank, "cmd=appnum appnum=0 rc=0");
    if (*command == "get_my_kvsname")
        return reply(local_rank, "cmd=my_kvsname kvsname=" + kvs_name_ + " rc=0");
    if (*command == "get_universe_size")
        return reply(local_rank, "cmd=universe_size size=" + std::to_string(world_size_) + " rc=0");
    if (*command == "finalize") {
        rank.finalised = true;
        return reply(local_rank, "cmd=finalize_ack rc=0");
    }
    if (*command == "abort") {
        long long code = 1;
        parse_integer(field(line, "exitcode").value_or("1"), code);
        Outcome outcome;  // no answer: the rank waits to be ended, and an answer would let it go on
        outcome.abort_code = static_cast<int>(code);
        return outcome;
    }
    // publish_name and others that need a server for the whole machine.
    return reply(local_rank, "cmd=" + std::string(command->substr(0, kKeyLimit)) +
                                 "_result rc=-1 msg=not_supported");
}

Outcome Pmi1Table::put(int local_rank, std::string_view line) {
    const auto name = field(line, "kvsname"), key = field(line, "key"),
               value = field(line, "value");
    if (!key || !value || name != kvs_name_)
        return broken("sent a put without name, key or value: " + quoted(line));
    if (key->empty() || key->size() > kKeyLimit || value->size() > kValueLimit)
        return reply(local_rank, "cmd=put_result rc=-1 msg=key_or_value_too_long");
    put_bytes_ += key->size() + value->size();
    if (put_bytes_ > kBytesLimit)
        return broken("put more than PMI-1 is for");
    table_.insert_or_assign(std::string(*key), std::string(*value));
    puts_.insert_or_assign(std::string(*key), std::string(*value));
    return reply(local_rank, "cmd=put_result rc=0 msg=success");
}

Outcome Pmi1Table::get(int local_rank, std::string_view line) const {
    const auto name = field(line, "kvsname"), key = field(line, "key");
    if (!key || name != kvs_name_)
        return broken("sent a get without name or key: " + quoted(line));
    const auto found = table_.find(*key);
    if (found == table_.end())
        return reply(local_rank, "cmd=get_result rc=-1 msg=key_not_found value=unknown");
    return reply(local_rank, "cmd=get_result rc=0 msg=success value=" + found->second);
}

Outcome Pmi1Table::enter_barrier(int local_rank) {
    Rank& rank = ranks_[index(local_rank)];
    if (rank.in_barrier)
        return broken("entered a barrier twice");
    rank.in_barrier = true;
    Outcome outcome;
    outcome.all_in_barrier = ++waiting_ == static_cast<int>(ranks_.size());
    return outcome;
}

std::string Pmi1Table::take_puts() {
    std::string blob;
    for (const auto& [key, value] : puts_) {
        append_text(blob, key);
        append_text(blob, value);
    }
    puts_.clear();
    put_bytes_ = 0;
    return blob;
}

Outcome Pmi1Table::on_barrier_over(const std::vector<std::pair<int, std::string>>& blobs) {
    Outcome outcome;
    for (const auto& [node, blob] : blobs) {
        std::string_view rest = blob;
        std::string key, value;
        while (!rest.empty()) {
            if (!take_text(rest, key) || !take_text(rest, value))
                return broken("what node " + std::to_string(node) + " has put cannot be read");
            table_.insert_or_assign(key, value);
        }
    }
    waiting_ = 0;
    for (std::size_t local_rank = 0; local_rank < ranks_.size(); ++local_rank) {
        ranks_[local_rank].in_barrier = false;
        outcome.replies.emplace_back(static_cast<int>(local_rank), "cmd=barrier_out rc=0\n");
    }
    return outcome;
}

bool Pmi1Table::anyone_initialised() const {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& rank) { return rank.initialised; });
}

bool Pmi1Table::everyone_finalised() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& rank) { return rank.finalised; });
}

}  // namespace autolaunch::launcher
