/* autolaunch-lines.so: a program whose stdout is its rank's log writes whole lines at once, as to a terminal. That is all.
 *
 * It comes into every process of a rank by LD_PRELOAD, so it must be harmless in each: a stdout that is a pipe or another file
 * is left alone, nothing of the C library is needed (what is missing is null, and nothing happens), no symbol of any program
 * is replaced, and nothing is kept. It is linked with nothing, so that it fits into any C library of its machine. */
#include <asm/stat.h>
#include <sys/syscall.h>

extern void* stdout __attribute__((weak));
extern int setvbuf(void* stream, char* buffer, int mode, unsigned long bytes) __attribute__((weak));
extern char* getenv(const char* name) __attribute__((weak));
extern long syscall(long number, ...) __attribute__((weak));

enum { kLineBuffered = 1 /* _IOLBF, glibc's and musl's */ };

/* The number at `text`, which must end in `end`; null where it is none. */
static const char* read_number(const char* text, char end, unsigned long* number) {
    const char* at = text;
    for (*number = 0; *at >= '0' && *at <= '9'; ++at)
        *number = *number * 10 + (unsigned long)(*at - '0');
    return at > text && *at == end ? at + 1 : 0;
}

/* AUTOLAUNCH_STDOUT is DEVICE:INODE of the rank's log. */
static int is_the_log(const char* named) {
    unsigned long device, inode;
    struct stat facts;
    const char* rest = read_number(named, ':', &device);
    return rest && read_number(rest, '\0', &inode) && syscall(SYS_fstat, 1, &facts) == 0 && facts.st_dev == device &&
           facts.st_ino == inode;
}

__attribute__((constructor)) static void write_lines(void) {
    if (!setvbuf || !&stdout || !getenv || !syscall)
        return;
    const char* named = getenv("AUTOLAUNCH_STDOUT");
    if (named && is_the_log(named))
        setvbuf(stdout, 0, kLineBuffered, 0);
}
