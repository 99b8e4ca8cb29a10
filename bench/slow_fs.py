#!/usr/bin/env python3
"""A slow shared file system, for measurements: shows a folder read-only at another place, late and throttled.

    bench/slow_fs.py --latency 0.002 --mb-per-second 200 /usr /mnt/slow       # as root; ends at SIGTERM

Each request that the kernel makes waits for --latency seconds; all data go through one limit, which several mounts of
one --share FILE have together, as the nodes of a cluster have one server. Speaks FUSE's protocol (7.26 and later) on
/dev/fuse itself; what the kernel has read stays in its page cache, as with a network file system, and each mount has its own.
Counts operations and bytes into --stats FILE at its end.
"""
import argparse
import ctypes
import errno
import fcntl
import json
import mmap
import os
import signal
import stat
import struct
import threading
import time

LOOKUP, FORGET, GETATTR, READLINK, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 5, 14, 15, 17, 18
INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 26, 27, 28, 29, 36, 42
HEADER = struct.Struct("<IIQQIIII")
ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
FOREVER = 10 ** 6
ASYNC_READ, AUTO_INVAL, PARALLEL_DIROPS, MAX_PAGES = 1 << 0, 1 << 12, 1 << 18, 1 << 22


class Throttle:
    """One server's bandwidth: each transfer is booked behind those of all mounts, in a file that they map."""

    def __init__(self, path, rate):
        self.rate = rate
        self.file = open(path, "a+b")
        self.file.truncate(8)
        self.memory = mmap.mmap(self.file.fileno(), 8)
        self.lock = threading.Lock()

    def wait(self, count, latency):
        now = time.monotonic()
        with self.lock:
            fcntl.flock(self.file, fcntl.LOCK_EX)
            free = max(struct.unpack("<d", self.memory[:8])[0], now) + count / self.rate
            self.memory[:8] = struct.pack("<d", free)
            fcntl.flock(self.file, fcntl.LOCK_UN)
        time.sleep(max(free - now, 0) + latency)


class SlowFs:
    def __init__(self, options):
        self.options = options
        self.throttle = Throttle(options.share, options.mb_per_second * 1e6)
        self.paths = {1: os.path.realpath(options.source)}
        self.numbers = {self.paths[1]: 1}
        self.open = {}
        self.next_handle = 1
        self.counts = {"lookups": 0, "opens": 0, "reads": 0, "bytes": 0, "others": 0}
        self.lock = threading.Lock()

    def mount(self):
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        data = "fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other,max_read=1048576" % (self.fd, os.getuid(), os.getgid())
        libc = ctypes.CDLL(None, use_errno=True)
        nosuid_nodev_readonly = 2 | 4 | 1
        if libc.mount(b"slow_fs", self.options.target.encode(), b"fuse.slow", nosuid_nodev_readonly, data.encode()) != 0:
            raise OSError(ctypes.get_errno(), "mount " + self.options.target)
        return libc

    def number_of(self, path):
        with self.lock:
            number = self.numbers.setdefault(path, len(self.numbers) + 1)
            self.paths[number] = path
        return number

    def attributes(self, number):
        facts = os.lstat(self.paths[number])
        return ATTRIBUTES.pack(
            number, facts.st_size, (facts.st_size + 511) // 512, int(facts.st_atime), int(facts.st_mtime), int(facts.st_ctime),
            0, facts.st_mtime_ns % 10 ** 9, 0, facts.st_mode, facts.st_nlink, facts.st_uid, facts.st_gid, 0, 4096, 0)

    def lookup(self, parent, name):
        path = os.path.join(self.paths[parent], os.fsdecode(name))
        if not os.path.lexists(path):
            return struct.pack("<QQQQII", 0, 0, FOREVER, FOREVER, 0, 0) + bytes(ATTRIBUTES.size)  # and it stays absent
        number = self.number_of(path)
        return struct.pack("<QQQQII", number, 0, FOREVER, FOREVER, 0, 0) + self.attributes(number)

    def open_file(self, path, value):
        with self.lock:
            handle, self.next_handle = self.next_handle, self.next_handle + 1
            self.open[handle] = value
        keep_cache = 2
        return struct.pack("<QII", handle, keep_cache, 0)

    def entries(self, number):
        out, folder = [], self.paths[number]
        for at, name in enumerate([".", ".."] + sorted(os.listdir(folder))):
            raw = os.fsencode(name)
            mode = stat.S_IFDIR if at < 2 else os.lstat(os.path.join(folder, name)).st_mode
            entry = struct.pack("<QQII", number + at + 1, at + 1, len(raw), mode >> 12) + raw
            out.append(entry + bytes(-len(entry) % 8))
        return out

    def read_folder(self, handle, offset, size):
        part = b""
        for entry in self.open[handle][offset:]:
            if len(part) + len(entry) > size:
                break
            part += entry
        return part

    def answer(self, operation, number, body):
        count, kind, data = 0, "others", b""
        if operation == LOOKUP:
            kind, data = "lookups", self.lookup(number, body.split(b"\0")[0])
        elif operation == GETATTR:
            data = struct.pack("<QII", FOREVER, 0, 0) + self.attributes(number)
        elif operation == READLINK:
            data = os.fsencode(os.readlink(self.paths[number]))
        elif operation == OPEN:
            kind, data = "opens", self.open_file(number, os.open(self.paths[number], os.O_RDONLY | os.O_CLOEXEC))
        elif operation == OPENDIR:
            data = self.open_file(number, self.entries(number))
        elif operation in (READ, READDIR):
            handle, offset, size = struct.unpack_from("<QQI", body)
            kind = "reads"
            data = os.pread(self.open[handle], size, offset) if operation == READ else self.read_folder(handle, offset, size)
            count = len(data)
        elif operation in (RELEASE, RELEASEDIR):
            held = self.open.pop(struct.unpack_from("<Q", body)[0])
            if operation == RELEASE:
                os.close(held)
            return b""  # nobody waits for it
        elif operation == STATFS:
            facts = os.statvfs(self.paths[1])
            data = struct.pack("<QQQQQIIII24x", facts.f_blocks, 0, 0, facts.f_files, 0, 4096, 255, 4096, 0)
        else:  # of ACCESS and FLUSH (at each close) the kernel then asks no more, as NFS never does
            raise OSError(errno.ENOSYS, "not here")
        with self.lock:
            self.counts[kind] += 1
            self.counts["bytes"] += count
        self.throttle.wait(count, self.options.latency)
        return data

    def introduce(self, body):
        major, minor, ahead, flags = struct.unpack_from("<IIII", body)
        wanted = flags & (ASYNC_READ | PARALLEL_DIROPS | MAX_PAGES)
        return struct.pack("<IIIIHHIIHHI28x", 7, min(minor, 31), ahead, wanted, 64, 48, 4096, 1, 256, 0, 0)

    def serve(self):
        while True:
            try:
                request = os.read(self.fd, 1 << 17)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                    continue
                return  # it was unmounted
            length, operation, unique, number, *_ = HEADER.unpack_from(request)
            body = request[HEADER.size:]
            if operation in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            try:
                data, error = self.introduce(body) if operation == INIT else self.answer(operation, number, body), 0
            except OSError as failure:
                data, error = b"", -failure.errno
            try:
                os.write(self.fd, struct.pack("<IiQ", 16 + len(data), error, unique) + data)
            except OSError:
                pass  # who asked is gone


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.001)
    parser.add_argument("--mb-per-second", type=float, default=100)
    parser.add_argument("--share", default="/dev/null")
    parser.add_argument("--stats")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("source")
    parser.add_argument("target")
    options = parser.parse_args()
    if options.share == "/dev/null":
        import tempfile
        options.share = tempfile.mkstemp()[1]
    slow = SlowFs(options)
    libc = slow.mount()
    for _ in range(options.threads):
        threading.Thread(target=slow.serve, daemon=True).start()
    print("ready", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    libc.umount2(options.target.encode(), 2)
    if options.stats:
        with open(options.stats, "w") as out:
            json.dump(slow.counts, out)


if __name__ == "__main__":
    import sys
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
    sys.stdout.flush()
    os._exit(0)
