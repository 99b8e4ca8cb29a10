# Folders of a machine's own, for tests whose machines are namespaces. Sourced; to be called as root of a fresh mount
# namespace, after own_run.
own_run() {
    mount -t tmpfs -o mode=755 tmpfs /run
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
}
own_tmp() { # FOLDERS, colon-separated: its own /tmp, with those of them that are in it put back
    local i folders
    IFS=: read -ra folders <<<"$1"
    mkdir /run/share
    for i in "${!folders[@]}"; do
        [[ ${folders[i]} == /tmp/* ]] || { unset "folders[i]" && continue; }
        mkdir "/run/share/$i"
        mount --bind "${folders[i]}" "/run/share/$i"
    done
    mount -t tmpfs -o mode=1777 tmpfs /tmp
    for i in "${!folders[@]}"; do
        mkdir -p "${folders[i]}"
        mount --move "/run/share/$i" "${folders[i]}"
    done
}
own_etc() { # FILE NAME: over /etc/NAME, which a bare root may lack, or have as a link into the machine's /run
    local target
    target=$(readlink -m "/etc/$2")
    [ -e "$target" ] || { mkdir -p "${target%/*}" && : >"$target"; }
    mount --bind "$1" "$target"
}
own_names() { # NAME HOSTS: its hostname, and the file that knows all of them; no DNS, and no waiting for it
    hostname "$1"
    echo "$1" >/run/hostname
    : >/run/resolv.conf
    own_etc /run/hostname hostname
    own_etc /run/resolv.conf resolv.conf
    own_etc "$2" hosts
}
