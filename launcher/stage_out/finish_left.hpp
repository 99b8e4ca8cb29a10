#pragma once
#include "stage_out/out_folder.hpp"

#include <functional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// What `autolaunch stage-out` was asked for.
struct FinishRequest {
    std::string scratch;
    std::vector<std::string> jobs = {};  ///< names of folders, or run ids; empty: all
    bool only_list = false;
    bool even_failed = false;  ///< also entries with when: success of jobs that did not succeed
    bool may_overwrite = false;
    bool by_node = false;
    bool discard = false;  ///< what is there goes, without being copied
    bool json = false;
};

/// `autolaunch stage-out`: copies what jobs of this user have left on this node, or says what there
/// is, or removes it. `print` gets lines, or the JSON at the end. The exit code: 0 where nothing is
/// left that was asked for. Throws UsageError for a job that is not there. Blocks: while files are
/// copied.
int finish_left(const FinishRequest& request, const std::function<void(const std::string&)>& print);

/// What becomes of a folder in `autolaunch gc`: by what is known of its end and of its copies,
/// never by its age alone. What was not copied stays.
struct OutVerdict {
    bool goes = false;
    std::string why;
};
OutVerdict judge_left_out(const LeftOut& left, std::int64_t now_s, std::int64_t keep_s);

}  // namespace autolaunch::launcher
