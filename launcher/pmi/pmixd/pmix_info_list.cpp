#include "pmi/pmixd/pmix_info_list.hpp"

#include <algorithm>

namespace autolaunch::launcher {

void PmixInfoList::load(const char* key, const void* value, pmix_data_type_t type) {
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, key, value, type);
    infos_.push_back(info);
}

void PmixInfoList::add_list(const char* key, PmixInfoList& list) {
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_LOAD_KEY(info.key, key);
    pmix_data_array_t* array = nullptr;
    PMIX_DATA_ARRAY_CREATE(array, list.size(), PMIX_INFO);
    std::copy(list.infos_.begin(), list.infos_.end(), static_cast<pmix_info_t*>(array->array));
    list.infos_.clear();
    info.value.type = PMIX_DATA_ARRAY;
    info.value.data.darray = array;
    infos_.push_back(info);
}

}  // namespace autolaunch::launcher
