#include "kerberos/kerberos_mounts.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cstddef>

namespace autolaunch::launcher {

namespace {

struct Mount {
    std::string point;
    bool wants_ticket = false;
};

// The kernel writes space, tab, line end and backslash as \ooo.
std::string without_escapes(const std::string& text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto digit = [&](std::size_t at) {
            return at < text.size() && text[at] >= '0' && text[at] <= '7';
        };
        if (text[i] == '\\' && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
            plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                       (text[i + 3] - '0'));
            i += 3;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

// "36 35 0:51 / /home rw,noatime shared:1 - nfs4 server:/home rw,vers=4.2,sec=krb5p,..."
bool read_mount(const std::string& line, Mount& mount) {
    const auto words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 10 || words.end() - dash < 4)
        return false;
    mount.point = without_escapes(words[4]);
    const auto options = split(*(dash + 3), ',');
    mount.wants_ticket = std::any_of(options.begin(), options.end(), [](const std::string& one) {
        return one.starts_with("sec=krb5");
    });
    return true;
}

bool lies_on(const std::string& path, const std::string& point) {
    return point == "/" || path == point ||
           (path.size() > point.size() && path.starts_with(point) && path[point.size()] == '/');
}

}  // namespace

std::vector<std::string> kerberos_mounts(std::string_view mountinfo,
                                         const std::vector<std::string>& paths) {
    std::vector<Mount> mounts;
    for (const std::string& line : split(mountinfo, '\n'))
        if (Mount mount; read_mount(line, mount))
            mounts.push_back(std::move(mount));
    std::vector<std::string> found;
    for (const std::string& path : paths) {
        const Mount* of_path = nullptr;  // the longest; of equal ones the last, which hides others
        for (const Mount& mount : mounts)
            if (lies_on(path, mount.point) &&
                (of_path == nullptr || mount.point.size() >= of_path->point.size()))
                of_path = &mount;
        if (of_path != nullptr && of_path->wants_ticket &&
            std::find(found.begin(), found.end(), of_path->point) == found.end())
            found.push_back(of_path->point);
    }
    return found;
}

}  // namespace autolaunch::launcher
