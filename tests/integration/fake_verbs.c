/* A libibverbs that serves HCAs out of a text file, for tests on machines without one. Built, where libibverbs' headers
 * are, as tests/fake_verbs.so, and as tests/fake_verbs_old.so, which does not know DMA-BUF. FAKE_VERBS_MACHINE names the
 * file. It is read when devices are listed.
 *
 * One fact a line: a word, then its values between spaces. Empty lines and lines that begin with # are skipped.
 *
 *   list 38                    ibv_get_device_list fails with this errno (38: no RDMA in the kernel)
 *   hangs ibv_open_device      this function (or ibv_get_device_list, ibv_reg_dmabuf_mr) never answers
 *   crashes ibv_open_device    this one ends the process by SIGSEGV
 *   device mlx5_0              begins an HCA
 * and after a device line, of that HCA:
 *   closed 13                  it cannot be opened: errno
 *   port 5                     its next port, with the active MTU as verbs number it (5: 4096 bytes)
 *   dmabuf 95                  errno of a DMA-BUF registration (95: not supported; without the line 9: bad descriptor)
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef ibv_get_device_list
#undef ibv_query_port

enum { MOST_DEVICES = 8, MOST_PORTS = 4 };

typedef struct {
    struct ibv_device device; /* first: a device is the address of its Hca */
    struct ibv_context context;
    struct ibv_pd domain;
    int closed, dmabuf, port_count, open_count, domain_count;
    int mtu[MOST_PORTS];
} Hca;

static Hca hcas[MOST_DEVICES];
static struct ibv_device* list[MOST_DEVICES + 1];
static int hca_count, list_error;
static char hangs[64], crashes[64];

#define EXPORT __attribute__((visibility("default")))

static void misbehave(const char* function) {
    while (strcmp(hangs, function) == 0) pause();
    if (strcmp(crashes, function) == 0) raise(SIGSEGV);
}

static void read_line(const char* line) {
    Hca* hca = hca_count > 0 ? &hcas[hca_count - 1] : NULL;
    char name[64];
    if (sscanf(line, "list %d", &list_error) == 1 || sscanf(line, "hangs %63s", hangs) == 1 ||
        sscanf(line, "crashes %63s", crashes) == 1)
        return;
    if (hca_count < MOST_DEVICES && sscanf(line, "device %63s", name) == 1) {
        hca = &hcas[hca_count++];
        memcpy(hca->device.name, name, strlen(name) + 1);
        hca->dmabuf = EBADF;
    } else if (hca) {
        if (sscanf(line, "closed %d", &hca->closed) == 1 || sscanf(line, "dmabuf %d", &hca->dmabuf) == 1) return;
        if (hca->port_count < MOST_PORTS && sscanf(line, "port %d", &hca->mtu[hca->port_count]) == 1)
            ++hca->port_count;
    }
}

static Hca* hca_of_device(struct ibv_device* device) {
    for (int i = 0; i < hca_count; ++i)
        if (&hcas[i].device == device) return &hcas[i];
    abort();
}
static Hca* hca_of_context(const struct ibv_context* context) {
    return hca_of_device(context->device);
}

EXPORT struct ibv_device** ibv_get_device_list(int* count) {
    const char* path = getenv("FAKE_VERBS_MACHINE");
    FILE* file = path ? fopen(path, "re") : NULL;
    char line[256];
    memset(hcas, 0, sizeof hcas);
    memset(list, 0, sizeof list);
    hca_count = list_error = 0;
    hangs[0] = crashes[0] = 0;
    while (file && fgets(line, sizeof line, file)) read_line(line);
    if (file) fclose(file);
    misbehave(__func__);
    errno = file ? list_error : ENOSYS;
    if (errno != 0) return NULL;
    for (int i = 0; i < hca_count; ++i) list[i] = &hcas[i].device;
    *count = hca_count;
    return list;
}
/* What was opened must be closed by then. */
EXPORT void ibv_free_device_list(struct ibv_device** given) {
    if (given != list) abort();
    for (int i = 0; i < hca_count; ++i)
        if (hcas[i].open_count != 0 || hcas[i].domain_count != 0) abort();
}
EXPORT const char* ibv_get_device_name(struct ibv_device* device) { return hca_of_device(device)->device.name; }

EXPORT struct ibv_context* ibv_open_device(struct ibv_device* device) {
    Hca* hca = hca_of_device(device);
    misbehave(__func__);
    errno = hca->closed;
    if (hca->closed) return NULL;
    ++hca->open_count;
    hca->context.device = device;
    return &hca->context;
}
EXPORT int ibv_close_device(struct ibv_context* context) {
    --hca_of_context(context)->open_count;
    return 0;
}
EXPORT int ibv_query_device(struct ibv_context* context, struct ibv_device_attr* attributes) {
    attributes->phys_port_cnt = (uint8_t)hca_of_context(context)->port_count;
    return 0;
}
EXPORT int ibv_query_port(struct ibv_context* context, uint8_t port, struct _compat_ibv_port_attr* compatible) {
    const Hca* hca = hca_of_context(context);
    struct ibv_port_attr* attributes = (struct ibv_port_attr*)compatible;
    if (port < 1 || port > hca->port_count) return EINVAL;
    attributes->active_mtu = (enum ibv_mtu)hca->mtu[port - 1];
    return 0;
}
EXPORT struct ibv_pd* ibv_alloc_pd(struct ibv_context* context) {
    Hca* hca = hca_of_context(context);
    ++hca->domain_count;
    hca->domain.context = context;
    return &hca->domain;
}
EXPORT int ibv_dealloc_pd(struct ibv_pd* domain) {
    --hca_of_context(domain->context)->domain_count;
    return 0;
}

#ifndef FAKE_VERBS_OLD

/* As the real one: what the kernel lacks is refused before the descriptor is looked at. */
EXPORT struct ibv_mr* ibv_reg_dmabuf_mr(struct ibv_pd* domain, uint64_t offset, size_t length, uint64_t address, int fd,
                                        int access) {
    (void)offset, (void)length, (void)address, (void)access;
    misbehave(__func__);
    if (fd >= 0) abort();
    errno = hca_of_context(domain->context)->dmabuf;
    return NULL;
}

#endif
