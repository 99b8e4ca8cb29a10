"""Files of which who opens one waits until it is let go: held_files.py FOLDER FILE...

By leases (fcntl(2), F_SETLEASE), which the kernel ends by itself after /proc/sys/fs/lease-break-time (45 s). Makes
FOLDER/held, and lets a file go once FOLDER has one of its last name; what is in that one is appended before that. Ends
with who has started it.
"""
import fcntl
import os
import signal
import sys
import time

signal.signal(signal.SIGIO, signal.SIG_IGN)  # somebody waits
folder, *paths = sys.argv[1:]
parent = os.getppid()
held = {}
for path in paths:
    fd = os.open(path, os.O_RDWR | os.O_APPEND)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    held[os.path.join(folder, os.path.basename(path))] = fd
open(os.path.join(folder, "held"), "w").close()
while held and os.getppid() == parent:
    for word, fd in list(held.items()):
        if os.path.exists(word):
            with open(word, "rb") as text:
                os.write(fd, text.read())
            os.close(held.pop(word))
    time.sleep(0.01)
