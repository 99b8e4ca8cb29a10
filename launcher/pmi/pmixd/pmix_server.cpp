#include "pmi/pmixd/pmix_server.hpp"

#include "base/owned_folder.hpp"
#include "pmi/pmixd/name_upcalls.hpp"
#include "pmi/pmixd/pmix_job_info.hpp"

#include <autolaunch/error.hpp>

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>

namespace autolaunch::launcher {

namespace {

constexpr auto kPmixTimeout = std::chrono::seconds(5);

// PMIx hands most upcalls no pointer of ours, so they need one place to find the server. Set once,
// before PMIx starts.
PmixServer* the_server = nullptr;

void check(pmix_status_t status, const char* what) {
    if (status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED)
        return;
    throw Error(ErrorCode::system,
                std::string("PMIx cannot ") + what + ": " + PMIx_Error_string(status));
}

/// A PMIx call that answers later, waited for. Shared with PMIx, which may answer after we have
/// given up.
class Answer {
public:
    static void arrive(pmix_status_t status, void* self) {
        const std::unique_ptr<Answer> answer(static_cast<Answer*>(self));
        answer->promise_.set_value(status);
    }
    /// `call(callback, argument)` starts it.
    template <typename Call>
    static void await(Call call, const char* what) {
        auto answer = std::make_unique<Answer>();
        auto status = answer->promise_.get_future();
        const pmix_status_t started = call(&Answer::arrive, answer.get());
        if (started != PMIX_SUCCESS)
            return check(started, what);
        [[maybe_unused]] Answer* const now_of_pmix = answer.release();
        if (status.wait_for(kPmixTimeout) != std::future_status::ready)
            throw TimeoutError(std::string("PMIx takes too long to ") + what);
        check(status.get(), what);
    }

private:
    std::promise<pmix_status_t> promise_;
};

}  // namespace

// All run on PMIx's thread: they copy what they are given and post it. What returns
// PMIX_OPERATION_SUCCEEDED has been answered by that; what returns PMIX_SUCCESS answers through its
// callback.
struct PmixServer::Upcalls {
    static void post(std::function<void()> work) { the_server->mailbox_.post(std::move(work)); }
    static void tell(pmixd::Message message) {
        post([message = std::move(message)]() mutable { the_server->tell_(std::move(message)); });
    }
    static int rank_of(const pmix_proc_t* proc) { return static_cast<int>(proc->rank); }

    // The rank waits for the answer: the agent can know before the rank goes on.
    static pmix_status_t tell_then_answer(pmixd::Message message, pmix_op_cbfunc_t callback,
                                          void* argument) {
        post([=, message = std::move(message)]() mutable {
            the_server->tell_(std::move(message));
            if (callback != nullptr)
                callback(PMIX_SUCCESS, argument);
        });
        return PMIX_SUCCESS;
    }

    static pmix_status_t connected(const pmix_proc_t* proc, void*, pmix_info_t*, std::size_t,
                                   pmix_op_cbfunc_t callback, void* argument) {
        return tell_then_answer(pmixd::Connected{rank_of(proc)}, callback, argument);
    }
    static pmix_status_t finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t callback,
                                   void* argument) {
        return tell_then_answer(pmixd::Finalized{rank_of(proc)}, callback, argument);
    }
    static pmix_status_t abort(const pmix_proc_t* proc, void*, int status, const char text[],
                               pmix_proc_t*, std::size_t, pmix_op_cbfunc_t callback,
                               void* argument) {
        return tell_then_answer(pmixd::Aborted{rank_of(proc), status, text != nullptr ? text : ""},
                                callback, argument);
    }
    static pmix_status_t fence(const pmix_proc_t procs[], std::size_t proc_count,
                               const pmix_info_t*, std::size_t, char* data, std::size_t bytes,
                               pmix_modex_cbfunc_t callback, void* argument) {
        pmixd::Fence fence;
        for (std::size_t i = 0; i < proc_count; ++i)
            if (procs[i].rank != PMIX_RANK_WILDCARD)
                fence.ranks.push_back(procs[i].rank);
        if (bytes > 0)
            fence.blob.assign(data, bytes);
        std::free(data);  // it is ours
        post([callback, argument, fence = std::move(fence)]() mutable {
            fence.call = the_server->expect_answer(callback, argument);
            if (fence.call != 0)
                the_server->tell_(std::move(fence));
        });
        return PMIX_SUCCESS;
    }
    static pmix_status_t direct_modex(const pmix_proc_t* proc, const pmix_info_t*, std::size_t,
                                      pmix_modex_cbfunc_t callback, void* argument) {
        if (the_server->name_space_ != proc->nspace)
            return PMIX_ERR_NOT_FOUND;
        post([callback, argument, rank = rank_of(proc)] {
            const std::uint64_t call = the_server->expect_answer(callback, argument);
            if (call != 0)
                the_server->tell_(pmixd::ModexRequest{call, rank});
        });
        return PMIX_SUCCESS;
    }
    static void modex_answer(pmix_status_t status, char* data, std::size_t bytes, void* argument) {
        const std::unique_ptr<std::uint64_t> call(static_cast<std::uint64_t*>(argument));
        tell(pmixd::ModexAnswer{
            *call, status == PMIX_SUCCESS, {data, status == PMIX_SUCCESS ? bytes : 0}});
    }
    static void log(const pmix_proc_t*, const pmix_info_t data[], std::size_t count,
                    const pmix_info_t*, std::size_t, pmix_op_cbfunc_t callback, void* argument) {
        for (std::size_t i = 0; i < count; ++i)
            if (data[i].value.type == PMIX_STRING && data[i].value.data.string != nullptr)
                tell(pmixd::Log{data[i].value.data.string});
        if (callback != nullptr)
            post([=] { callback(PMIX_SUCCESS, argument); });
    }
    // Without it Open MPI's request to remove its shared memory files at the end is lost with a
    // rank that is killed. With it PMIx removes them as soon as a rank has said goodbye, and the
    // rank itself, which is about to do so, may find them gone and say that a system call failed
    // (Open MPI's issue 9905). So there is one only where the files are not in a folder of ours,
    // which is removed with all that is in it.
    static bool is_own_folder() {
        return std::getenv("OMPI_MCA_btl_vader_backing_directory") == nullptr;
    }
    static pmix_status_t job_control(const pmix_proc_t*, const pmix_proc_t*, std::size_t,
                                     const pmix_info_t*, std::size_t, pmix_info_cbfunc_t, void*) {
        return PMIX_OPERATION_SUCCEEDED;
    }
    // MPI_Comm_spawn sees an error at once; what it says of the reason is nothing.
    static pmix_status_t spawn(const pmix_proc_t* proc, const pmix_info_t*, std::size_t,
                               const pmix_app_t apps[], std::size_t count, pmix_spawn_cbfunc_t,
                               void*) {
        const std::string program = count > 0 && apps[0].cmd != nullptr ? apps[0].cmd : "a program";
        tell(pmixd::Log{"rank " + std::to_string(rank_of(proc)) + " called MPI_Comm_spawn for " +
                        program +
                        ", and was refused: autolaunch starts no ranks on request. Start them as "
                        "ranks of the job, or the program by mpirun"});
        return PMIX_ERR_NOT_SUPPORTED;
    }
    static pmix_status_t notify_event(pmix_status_t, const pmix_proc_t*, pmix_data_range_t,
                                      pmix_info_t*, std::size_t, pmix_op_cbfunc_t, void*) {
        return PMIX_OPERATION_SUCCEEDED;
    }
    static pmix_status_t register_events(pmix_status_t*, std::size_t, const pmix_info_t*,
                                         std::size_t, pmix_op_cbfunc_t, void*) {
        return PMIX_OPERATION_SUCCEEDED;
    }
    static pmix_status_t deregister_events(pmix_status_t*, std::size_t, pmix_op_cbfunc_t, void*) {
        return PMIX_OPERATION_SUCCEEDED;
    }

    static pmix_server_module_t module() {
        pmix_server_module_t module;
        std::memset(&module, 0, sizeof module);
        module.client_connected2 = connected;
        module.client_finalized = finalized;
        module.abort = abort;
        module.fence_nb = fence;
        module.direct_modex = direct_modex;
        module.log = log;
        module.spawn = spawn;
        module.job_control = is_own_folder() ? nullptr : job_control;
        module.notify_event = notify_event;
        module.register_events = register_events;
        module.deregister_events = deregister_events;
        return module;
    }
};

PmixServer::PmixServer(Mailbox& mailbox, std::function<void(pmixd::Message&&)> tell)
    : mailbox_(mailbox), tell_(std::move(tell)), guard_([this](const std::string& text) {
          mailbox_.post([this, text] { tell_(pmixd::Log{text}); });
      }) {}

pmixd::Ready PmixServer::start(const pmixd::Start& job) {
    name_space_ = job.name_space;
    the_server = this;
    init(job);
    register_job(job);
    pmixd::Ready ready;
    ready.version = PMIx_Get_version();
    const JobRanks ranks(job);
    for (int rank = ranks.first(job.node_rank); rank < ranks.first(job.node_rank + 1); ++rank)
        ready.environments.push_back(register_client(job, rank));
    guard_.open();
    if (!ready.environments.empty())
        guard_.prove(pmix_listener(ready.environments.front()));
    return ready;
}

void PmixServer::init(const pmixd::Start& job) {
    static pmix_server_module_t module = Upcalls::module();  // PMIx keeps the pointer
    if (job.nodes.size() == 1)
        add_name_upcalls(module, mailbox_, names_);
    PmixInfoList info;
    describe_server(job, info);
    check(PMIx_server_init(&module, info.data(), info.size()), "start its server");
    check(PMIx_Register_event_handler(
              nullptr, 0, nullptr, 0,
              [](std::size_t, pmix_status_t, const pmix_proc_t*, pmix_info_t*, std::size_t,
                 pmix_info_t*, std::size_t, pmix_event_notification_cbfunc_fn_t done,
                 void* argument) {
                  if (done != nullptr)
                      done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, argument);
              },
              nullptr, nullptr) < 0
              ? PMIX_ERROR
              : PMIX_SUCCESS,
          "listen to its events");
}

void PmixServer::register_job(const pmixd::Start& job) {
    const std::filesystem::path directory = job_directory(job);
    OwnedFolder::open(directory.parent_path()).private_folder(directory.filename());
    PmixInfoList info;
    describe_job(job, info);
    const int ranks_here = job.nodes.at(static_cast<std::size_t>(job.node_rank)).second;
    Answer::await(
        [&](pmix_op_cbfunc_t callback, void* argument) {
            return PMIx_server_register_nspace(job.name_space.c_str(), ranks_here, info.data(),
                                               info.size(), callback, argument);
        },
        "register the job");
}

std::vector<std::string> PmixServer::register_client(const pmixd::Start& job, int rank) {
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, job.name_space.c_str(), static_cast<pmix_rank_t>(rank));
    Answer::await(
        [&](pmix_op_cbfunc_t callback, void* argument) {
            return PMIx_server_register_client(&proc, ::getuid(), ::getgid(), nullptr, callback,
                                               argument);
        },
        "register a rank");
    char** lines = nullptr;
    check(PMIx_server_setup_fork(&proc, &lines), "make a rank's environment");
    std::vector<std::string> environment;
    for (char** line = lines; line != nullptr && *line != nullptr; ++line) {
        environment.emplace_back(*line);
        std::free(*line);
    }
    std::free(lines);
    return environment;
}

std::uint64_t PmixServer::expect_answer(pmix_modex_cbfunc_t callback, void* argument) {
    if (over_) {
        callback(PMIX_ERR_JOB_ABORTED, nullptr, 0, argument, nullptr, nullptr);
        return 0;
    }
    pending_.emplace(++last_call_, Pending{callback, argument});
    return last_call_;
}

void PmixServer::answer(std::uint64_t call, bool good, const std::string& blob) {
    const auto found = pending_.find(call);
    if (found == pending_.end())
        return;
    const Pending pending = found->second;
    pending_.erase(found);
    char* copy = nullptr;  // PMIx gives it back when it has read it, to std::free
    if (good && !blob.empty()) {
        copy = static_cast<char*>(std::malloc(blob.size()));
        if (copy == nullptr)
            good = false;
        if (good)
            std::memcpy(copy, blob.data(), blob.size());
    }
    pending.callback(good ? PMIX_SUCCESS : PMIX_ERR_JOB_ABORTED, copy, good ? blob.size() : 0,
                     pending.argument, std::free, copy);
}

void PmixServer::on(const pmixd::ModexQuery& query) {
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, name_space_.c_str(), static_cast<pmix_rank_t>(query.rank));
    auto call = std::make_unique<std::uint64_t>(query.call);
    if (PMIx_server_dmodex_request(&proc, Upcalls::modex_answer, call.get()) == PMIX_SUCCESS) {
        [[maybe_unused]] std::uint64_t* const now_of_pmix = call.release();
    } else {
        tell_(pmixd::ModexAnswer{query.call, false, {}});
    }
}

void PmixServer::answer_all() {
    over_ = true;
    names_.answer_all();
    const auto waiting = std::move(pending_);
    pending_.clear();
    for (const auto& [call, pending] : waiting)
        pending.callback(PMIX_ERR_JOB_ABORTED, nullptr, 0, pending.argument, nullptr, nullptr);
}

}  // namespace autolaunch::launcher
