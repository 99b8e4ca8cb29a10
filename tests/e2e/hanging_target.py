#!/usr/bin/env python3
"""An empty folder whose file system takes the making of a file and never answers: hanging_target.py FOLDER, as root.

Says "mounted" once it is. Who makes a file there waits in the kernel, and not even SIGKILL ends it before this process is
gone. Speaks FUSE's protocol (7.26 and later) on /dev/fuse itself.
"""
import ctypes
import errno
import os
import signal
import stat
import struct
import sys

LOOKUP, FORGET, GETATTR, UNLINK, STATFS, INIT, INTERRUPT, CREATE, BATCH_FORGET = 1, 2, 3, 10, 17, 26, 36, 35, 42
HEADER = struct.Struct("<IIQQIIII")


def main(folder):
    fuse = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    data = f"fd={fuse},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"hanging", os.fsencode(folder), b"fuse.hanging", 0, data) != 0:
        sys.exit(f"cannot mount: {os.strerror(ctypes.get_errno())}")
    print("mounted", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    while True:
        request = os.read(fuse, 1 << 20)
        _, code, unique, _, _, _, _, _ = HEADER.unpack_from(request)
        if code == INIT:
            answer = struct.pack("<IIIIHHIIHHI7I", 7, 31, 65536, 0, 0, 0, 65536, 1, 0, 0, 0, *[0] * 7)
        elif code == GETATTR:
            answer = struct.pack("<QII", 0, 0, 0) + struct.pack("<6Q10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, stat.S_IFDIR | 0o777, 2, 0, 0, 0, 4096, 0)
        elif code == STATFS:
            answer = struct.pack("<5Q4I24x", 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096, 0)
        elif code in (FORGET, BATCH_FORGET, INTERRUPT, CREATE):
            continue
        else:
            answer = None
        error = 0 if answer is not None else -(errno.ENOENT if code in (LOOKUP, UNLINK) else errno.ENOSYS)
        os.write(fuse, struct.pack("<IiQ", 16 + len(answer or b""), error, unique) + (answer or b""))


main(sys.argv[1])
