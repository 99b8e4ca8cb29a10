#pragma once
#include "checkpoint/s3/s3_answers.hpp"
#include "stage_cache/tree.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The files that objects of a listing are, and the folders between them. `shown` is what is before
/// their keys. Throws ExitError 65 for keys that can be no paths here ("a//b", "../c", a file that
/// is a folder, too), with the key. Pure.
Tree tree_of_objects(const std::vector<s3::Object>& objects, const std::string& shown);

/// Of one object or file of a server.
TreeEntry remote_file(std::string path, std::int64_t bytes, std::string version,
                      const std::string& modified);

}  // namespace autolaunch::launcher
