#include "pmi/pmixd/name_upcalls.hpp"

#include <memory>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace {

Mailbox* the_mailbox = nullptr;
NameTable* the_names = nullptr;

using InfoCopies = std::shared_ptr<std::vector<PmixInfoCopy>>;  // a std::function must be copyable

InfoCopies copy(const pmix_info_t info[], std::size_t count) {
    auto copies = std::make_shared<std::vector<PmixInfoCopy>>();
    for (std::size_t i = 0; i < count; ++i)
        copies->emplace_back(info[i]);
    return copies;
}

std::vector<std::string> copy(char** keys) {
    std::vector<std::string> copies;
    for (; keys != nullptr && *keys != nullptr; ++keys)
        copies.emplace_back(*keys);
    return copies;
}

void answer(pmix_op_cbfunc_t callback, pmix_status_t status, void* argument) {
    if (callback != nullptr)
        callback(status, argument);
}

pmix_status_t publish(const pmix_proc_t* proc, const pmix_info_t info[], std::size_t count,
                      pmix_op_cbfunc_t callback, void* argument) {
    the_mailbox->post([owner = *proc, copies = copy(info, count), callback, argument] {
        answer(callback, the_names->publish(owner, std::move(*copies)), argument);
    });
    return PMIX_SUCCESS;
}

pmix_status_t unpublish(const pmix_proc_t* proc, char** keys, const pmix_info_t*, std::size_t,
                        pmix_op_cbfunc_t callback, void* argument) {
    the_mailbox->post([owner = *proc, copies = copy(keys), callback, argument] {
        the_names->unpublish(owner, copies);
        answer(callback, PMIX_SUCCESS, argument);
    });
    return PMIX_SUCCESS;
}

pmix_status_t look_up(const pmix_proc_t*, char** keys, const pmix_info_t info[], std::size_t count,
                      pmix_lookup_cbfunc_t callback, void* argument) {
    NameTable::Lookup lookup{.keys = copy(keys), .callback = callback, .argument = argument};
    for (std::size_t i = 0; i < count; ++i) {
        const std::string_view key = info[i].key;
        if (key == PMIX_WAIT)
            lookup.waits = true;
        if (key == PMIX_TIMEOUT && info[i].value.type == PMIX_INT && info[i].value.data.integer > 0)
            lookup.until =
                NameTable::Clock::now() + std::chrono::seconds(info[i].value.data.integer);
    }
    the_mailbox->post([lookup] { the_names->look_up(NameTable::Lookup(lookup)); });
    return PMIX_SUCCESS;
}

}  // namespace

void add_name_upcalls(pmix_server_module_t& module, Mailbox& mailbox, NameTable& names) {
    the_mailbox = &mailbox;
    the_names = &names;
    module.publish = publish;
    module.lookup = look_up;
    module.unpublish = unpublish;
}

}  // namespace autolaunch::launcher
