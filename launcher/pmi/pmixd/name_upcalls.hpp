#pragma once
#include "pmi/pmixd/mailbox.hpp"
#include "pmi/pmixd/name_table.hpp"

#include <pmix_server.h>

namespace autolaunch::launcher {

/// Adds what PMIx calls for publish, lookup and unpublish; on the main thread each goes to `names`.
/// Once a process: PMIx hands them no pointer of ours. Both must outlive PMIx.
void add_name_upcalls(pmix_server_module_t& module, Mailbox& mailbox, NameTable& names);

}  // namespace autolaunch::launcher
