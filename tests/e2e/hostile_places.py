"""What another user does in folders that he may write to, while root looks there, for hostile_places.sh.

    hostile_places.py swap PATH OTHER...   exchanges PATH with each OTHER in turn, as fast as it can, until it is ended
"""
import ctypes
import os
import sys

RENAME_EXCHANGE, AT_FDCWD = 2, -100


def swap(path, *others):
    libc = ctypes.CDLL(None, use_errno=True)
    print("here", flush=True)
    while True:
        for other in others:
            if libc.renameat2(AT_FDCWD, path.encode(), AT_FDCWD, other.encode(), RENAME_EXCHANGE) != 0:
                if not os.path.lexists(path) and not os.path.lexists(other):
                    return  # both were removed: he has lost them
        if os.getppid() == 1:
            return


if __name__ == "__main__":
    {"swap": swap}[sys.argv[1]](*sys.argv[2:])
