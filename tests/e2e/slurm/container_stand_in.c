/* A stand-in for pyxis on the test cluster, and not pyxis: a plugin of Slurm's (SPANK) with srun's options of the same names,
 * for images that are folders. Each task of the step sees the folder as its root, with /proc, /sys and /dev of the node and
 * what --container-mounts names. It shows that a step is inside, and nothing of what enroot does. */
#define _GNU_SOURCE
#include <slurm/spank.h>

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

SPANK_PLUGIN(container_stand_in, 1)

static char image[PATH_MAX];
static char mounts[16384];

static int take(char* to, size_t size, const char* text) {
    if (strlen(text) >= size)
        return -1;
    strcpy(to, text);
    return 0;
}
static int take_image(int value, const char* text, int remote) {
    (void)value, (void)remote;
    return take(image, sizeof image, text);
}
static int take_mounts(int value, const char* text, int remote) {
    (void)value, (void)remote;
    return take(mounts, sizeof mounts, text);
}
static int take_flag(int value, const char* text, int remote) {
    (void)value, (void)text, (void)remote;
    return 0; /* nothing of a home is ever mounted */
}

struct spank_option spank_options[] = {
    {"container-image", "FOLDER", "the folder that is the tasks' root", 1, 0, take_image},
    {"container-mounts", "SRC:DST[:FLAGS],...", "what they see of the node", 1, 0, take_mounts},
    {"no-container-mount-home", NULL, "no home is mounted", 0, 0, take_flag},
    SPANK_OPTIONS_TABLE_END};

static int fails(const char* what, const char* where) {
    slurm_error("container_stand_in: %s %s: %s", what, where, strerror(errno));
    return -1;
}

/* All folders of a path below the image. */
static void make_folders(char* path) {
    for (char* slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0755);
        *slash = '/';
    }
    mkdir(path, 0755);
}

static int show(const char* source, const char* target, int read_only) {
    char place[2 * PATH_MAX];
    snprintf(place, sizeof place, "%s%s", image, target);
    make_folders(place);
    if (mount(source, place, NULL, MS_BIND | MS_REC, NULL) != 0)
        return fails("cannot mount", source);
    if (read_only && mount(NULL, place, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) != 0)
        return fails("cannot make read-only", target);
    return 0;
}

static int show_mounts(void) {
    char* rest = NULL;
    for (char* one = strtok_r(mounts, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest)) {
        char* inner = NULL;
        const char* source = strtok_r(one, ":", &inner);
        const char* target = strtok_r(NULL, ":", &inner);
        const char* flags = strtok_r(NULL, ":", &inner);
        if (source == NULL || show(source, target == NULL ? source : target,
                                   flags != NULL && strcmp(flags, "ro") == 0) != 0)
            return -1;
    }
    return 0;
}

int slurm_spank_task_init_privileged(spank_t spank, int count, char** arguments) {
    (void)spank, (void)count, (void)arguments;
    if (image[0] == 0)
        return 0;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return fails("cannot leave the node's mounts for", image);
    if (mount(image, image, NULL, MS_BIND | MS_REC, NULL) != 0)
        return fails("cannot use the image", image);
    if (show("/proc", "/proc", 0) != 0 || show("/sys", "/sys", 0) != 0 || show("/dev", "/dev", 0) != 0 ||
        show_mounts() != 0)
        return -1;
    if (chroot(image) != 0 || chdir("/") != 0)
        return fails("cannot enter", image);
    return 0;
}
