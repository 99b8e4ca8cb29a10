#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// The mounts of a mountinfo(5) text whose server wants a Kerberos ticket (sec=krb5, krb5i, krb5p:
/// NFS and CIFS) and that one of `paths`, which are absolute, lies on. Pure.
std::vector<std::string> kerberos_mounts(std::string_view mountinfo,
                                         const std::vector<std::string>& paths);

}  // namespace autolaunch::launcher
