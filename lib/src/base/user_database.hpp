#pragma once
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <vector>

namespace autolaunch {

/// What the system's databases of users and groups say (nsswitch: files, LDAP, sssd). A directory
/// that does not answer is no answer, not a no.
enum class DatabaseAnswer { exists, none, no_answer };

/// `ask` is one of getpwuid_r(3) and its like, called with the entry, room for its texts, the size
/// of that and where to put the entry's address. Blocks as the databases do.
template <class Entry, class Ask>
DatabaseAnswer ask_database(Ask ask, Entry& entry, std::vector<char>& room) {
    constexpr std::size_t kFirst = 4096, kLargest = std::size_t{16} << 20;
    for (room.resize(kFirst); room.size() <= kLargest;) {
        Entry* found = nullptr;
        const int error = ask(&entry, room.data(), room.size(), &found);
        if (error == EINTR)
            continue;
        if (error == ERANGE) {
            room.resize(room.size() * 2);
            continue;
        }
        if (error != 0)
            return DatabaseAnswer::no_answer;
        return found != nullptr ? DatabaseAnswer::exists : DatabaseAnswer::none;
    }
    return DatabaseAnswer::no_answer;
}

struct UserRecord {
    DatabaseAnswer answer = DatabaseAnswer::none;
    std::string name;  ///< "user 1001" where no database knows him, or none has answered
    std::string home;  ///< empty in these cases
};

/// A user's number by his name, or by that number itself. Blocks as the databases do, 10 s at most.
struct UserNumber {
    DatabaseAnswer answer = DatabaseAnswer::none;
    uid_t uid = 0;  ///< where there is such a user
};
UserNumber number_of_user(const std::string& name);

/// Of this process's effective user. Asked for once a process, for 10 s at most: what comes later
/// counts for who asks later. Any thread.
UserRecord own_user_record();

}  // namespace autolaunch
