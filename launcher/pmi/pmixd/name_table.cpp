#include "pmi/pmixd/name_table.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace {

// PMIx's own keys: how long, for whom, whose.
bool is_directive(const PmixInfoCopy& info) {
    return std::string_view(info.get().key).starts_with("pmix.");
}

bool is_same(const pmix_proc_t& a, const pmix_proc_t& b) {
    return a.rank == b.rank && std::string_view(a.nspace) == b.nspace;
}

bool is_for_first_reader(const std::vector<PmixInfoCopy>& info) {
    return std::any_of(info.begin(), info.end(), [](const PmixInfoCopy& item) {
        return std::string_view(item.get().key) == PMIX_PERSISTENCE &&
               item.get().value.type == PMIX_PERSIST &&
               item.get().value.data.persist == PMIX_PERSIST_FIRST_READ;
    });
}

}  // namespace

const NameTable::Entry* NameTable::find(const std::string& key) const {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return key == entry.info.get().key;
    });
    return found == entries_.end() ? nullptr : &*found;
}

pmix_status_t NameTable::publish(const pmix_proc_t& owner, std::vector<PmixInfoCopy>&& info) {
    const bool only_once = is_for_first_reader(info);
    for (const PmixInfoCopy& item : info)
        if (!is_directive(item) && find(item.get().key) != nullptr)
            return PMIX_ERR_DUPLICATE_KEY;
    for (PmixInfoCopy& item : info)
        if (!is_directive(item))
            entries_.push_back({owner, std::move(item), only_once});
    for (auto lookup = waiting_.begin(); lookup != waiting_.end();)
        lookup = answer(*lookup) ? waiting_.erase(lookup) : std::next(lookup);
    return PMIX_SUCCESS;
}

void NameTable::look_up(Lookup&& lookup) {
    if (!answer(lookup))
        waiting_.push_back(std::move(lookup));
}

// False: it goes on waiting.
bool NameTable::answer(const Lookup& lookup) {
    std::vector<const Entry*> found;
    for (const std::string& key : lookup.keys)
        if (const Entry* const entry = find(key))
            found.push_back(entry);
    if (lookup.waits && found.size() < lookup.keys.size())
        return false;
    if (found.empty()) {
        lookup.callback(PMIX_ERR_NOT_FOUND, nullptr, 0, lookup.argument);
        return true;
    }
    std::vector<pmix_pdata_t> data(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        PMIX_PDATA_CONSTRUCT(&data[i]);
        data[i].proc = found[i]->owner;
        PMIX_LOAD_KEY(data[i].key, found[i]->info.get().key);
        pmix_value_t value = found[i]->info.get().value;  // only read
        PMIx_Value_xfer(&data[i].value, &value);
    }
    lookup.callback(PMIX_SUCCESS, data.data(), data.size(), lookup.argument);
    for (pmix_pdata_t& item : data)
        PMIX_PDATA_DESTRUCT(&item);
    entries_.remove_if([&](const Entry& entry) {
        return entry.only_once && std::find(found.begin(), found.end(), &entry) != found.end();
    });
    return true;
}

void NameTable::unpublish(const pmix_proc_t& owner, const std::vector<std::string>& keys) {
    entries_.remove_if([&](const Entry& entry) {
        return is_same(entry.owner, owner) &&
               (keys.empty() ||
                std::find(keys.begin(), keys.end(), entry.info.get().key) != keys.end());
    });
}

std::optional<NameTable::Clock::time_point> NameTable::next_deadline() const {
    std::optional<Clock::time_point> next;
    for (const Lookup& lookup : waiting_)
        if (lookup.until && (!next || *lookup.until < *next))
            next = lookup.until;
    return next;
}

void NameTable::give_up_late(Clock::time_point now) {
    waiting_.remove_if([&](const Lookup& lookup) {
        if (!lookup.until || *lookup.until > now)
            return false;
        lookup.callback(PMIX_ERR_TIMEOUT, nullptr, 0, lookup.argument);
        return true;
    });
}

void NameTable::answer_all() {
    for (const Lookup& lookup : std::exchange(waiting_, {}))
        lookup.callback(PMIX_ERR_JOB_ABORTED, nullptr, 0, lookup.argument);
}

}  // namespace autolaunch::launcher
