#pragma once
#include "pmi/pmixd/connection_guard.hpp"
#include "pmi/pmixd/mailbox.hpp"
#include "pmi/pmixd/name_table.hpp"
#include "pmi/pmixd_message.hpp"

#include <pmix.h>
#include <pmix_server.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

/// The PMIx library's server, for the ranks of one job on this node. PMIx calls us on a thread of
/// its own; every such call is moved to the main thread, and PMIx's thread never waits.
///
/// It is never finalised and forgets no client: with ranks that died while they connected,
/// OpenPMIx 4.2 hangs in both. The process ends by _exit instead.
///
/// Ranks connect to it over the loopback; of other users' processes it hears nothing
/// (ConnectionGuard).
///
/// Owner: autolaunch-pmixd's main, one a process (PMIx's own rule). Threads: the main one. Blocks:
/// start(), until PMIx has done what it is asked, each time at most kPmixTimeout.
class PmixServer {
public:
    /// `tell` gets Fence, ModexRequest, ModexAnswer, Aborted, Connected, Finalized and Log, from
    /// mailbox.work_off().
    PmixServer(Mailbox& mailbox, std::function<void(pmixd::Message&&)> tell);
    PmixServer(const PmixServer&) = delete;
    PmixServer& operator=(const PmixServer&) = delete;

    /// Before start(): where PMIx is to listen.
    void give_listener(UniqueFd listener) { guard_.give_listener(std::move(listener)); }
    /// Throws Error with PMIx's own words.
    pmixd::Ready start(const pmixd::Start& job);

    void on(const pmixd::FenceDone& done) { answer(done.call, done.good, done.blob); }
    void on(const pmixd::ModexDone& done) { answer(done.call, done.good, done.blob); }
    void on(const pmixd::ModexQuery& query);
    /// Every call that PMIx still waits for is answered: the job is over.
    void answer_all();
    /// When give_up_late() has something to do; nothing: never.
    std::optional<NameTable::Clock::time_point> next_deadline() const {
        return names_.next_deadline();
    }
    void give_up_late() { names_.give_up_late(NameTable::Clock::now()); }

private:
    struct Upcalls;  ///< the C functions that PMIx calls
    struct Pending {
        pmix_modex_cbfunc_t callback;
        void* argument;
    };

    void init(const pmixd::Start& job);
    void register_job(const pmixd::Start& job);
    std::vector<std::string> register_client(const pmixd::Start& job, int rank);
    std::uint64_t expect_answer(pmix_modex_cbfunc_t callback, void* argument);
    void answer(std::uint64_t call, bool good, const std::string& blob);

    Mailbox& mailbox_;
    std::function<void(pmixd::Message&&)> tell_;
    ConnectionGuard guard_;
    NameTable names_;
    std::string name_space_;
    std::map<std::uint64_t, Pending> pending_;
    std::uint64_t last_call_ = 0;
    bool over_ = false;
};

}  // namespace autolaunch::launcher
