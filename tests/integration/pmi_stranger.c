/* Another user of the machine, who has learned all that a rank is told: pmi_stranger UID WHAT, started by root with the
 * environment of a rank. It becomes that user, and says to PMIx that it is still the old one, as every program can.
 * abort: ends the job in the rank's name. Exit code 0: it did; 3: it could not connect. silent: connects and says nothing,
 * until it is killed; it prints a line when it has. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static uid_t claimed_uid;
static gid_t claimed_gid;

/* What the PMIx library asks, and sends. */
uid_t geteuid(void) { return claimed_uid; }
gid_t getegid(void) { return claimed_gid; }

extern char** environ;

static int server_port(void) {
    for (char** variable = environ; *variable != NULL; ++variable)
        if (strncmp(*variable, "PMIX_SERVER_URI", 15) == 0 && strstr(*variable, "tcp4://") != NULL)
            return atoi(strrchr(*variable, ':') + 1);
    return 0;
}

static int be_silent(void) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((unsigned short)server_port())};
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 4; ++i)
        if (connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr*)&server, sizeof server) != 0) return 3;
    puts("connected");
    fflush(stdout);
    sleep(60);
    return 0;
}

int main(int argc, char** argv) {
    pmix_proc_t self;
    uid_t user = argc > 2 ? (uid_t)atoi(argv[1]) : 0;
    claimed_uid = (uid_t)syscall(SYS_geteuid);
    claimed_gid = (gid_t)syscall(SYS_getegid);
    if (argc < 3 || (user != claimed_uid && (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0))) return 2;
    if (strcmp(argv[2], "silent") == 0) return be_silent();
    alarm(30);
    setenv("PMIX_GDS_MODULE", "hash", 1); /* it needs no file of the server's */
    if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS) return 3;
    PMIx_Abort(77, "by another user", NULL, 0);
    return 0;
}
