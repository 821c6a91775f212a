/* Loaded in front of the C library: the disk of one process is full for the files below one folder, while
 * the harness says so. The file named by HOLDFAST_DISK is mapped as `struct control`. Bytes that exist can be
 * overwritten. A file can grow only by what was freed since the disk is full: a file that is removed frees
 * its size. The part of a write that fits is written, as a file system does it. Other files, pipes and
 * sockets are never touched.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096
#define LINK_SIZE (PAGE + 64)

struct control {
  /* How often ENOSPC was answered. */
  _Atomic uint64_t answers;
  _Atomic uint8_t full;
  char unused[7];
  /* Bytes of files that were removed since the disk is full, less those that were written since. */
  _Atomic uint64_t freed;
  char folder[PAGE - 24];
};

static struct control *control;

__attribute__((constructor)) static void map_control(void) {
  const char *path = getenv("HOLDFAST_DISK");
  if (path == NULL) return;
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) _exit(97);
  void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) _exit(97);
  close(file);
  control = page;
}

static int is_below(int file) {
  char name[64], path[LINK_SIZE];
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  ssize_t length = readlink(name, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  size_t folder = strnlen(control->folder, sizeof control->folder);
  return folder > 0 && strncmp(path, control->folder, folder) == 0 && (path[folder] == '/' || path[folder] == '\0');
}

/* Whether this file cannot grow now, and how large it is. Never changes errno. */
static int is_stuck(int file, off_t *size) {
  if (control == NULL || !atomic_load_explicit(&control->full, memory_order_acquire)) return 0;
  int before = errno;
  struct stat about;
  int stuck = fstat(file, &about) == 0 && S_ISREG(about.st_mode) && is_below(file);
  if (stuck) *size = about.st_size;
  errno = before;
  return stuck;
}

/* Takes up to `wanted` bytes of what was freed, and says how many. */
static size_t take_freed(size_t wanted) {
  uint64_t freed = atomic_load(&control->freed);
  for (;;) {
    size_t taken = wanted < freed ? wanted : freed;
    if (atomic_compare_exchange_weak(&control->freed, &freed, freed - taken)) return taken;
  }
}

#define HERE (-1)

/* How many of the bytes can be written, from an offset or from where the file stands. */
static size_t room(int file, off_t from, size_t count) {
  off_t size;
  if (!is_stuck(file, &size)) return count;
  int before = errno;
  int appends = (fcntl(file, F_GETFL) & O_APPEND) != 0;
  off_t at = appends ? size : from == HERE ? lseek(file, 0, SEEK_CUR) : from;
  errno = before;
  size_t exists = at >= size ? 0 : (size_t)(size - at);
  return count > exists ? exists + take_freed(count - exists) : count;
}

static int no_space(void) {
  atomic_fetch_add(&control->answers, 1);
  errno = ENOSPC;
  return -1;
}

/* Of several pieces, all or nothing. */
static int vector_fits(int file, const struct iovec *pieces, int count, off_t from) {
  size_t sum = 0;
  for (int i = 0; i < count; i += 1) sum += pieces[i].iov_len;
  size_t fits = room(file, from, sum);
  if (fits == sum) return 1;
  off_t size;
  size_t exists = is_stuck(file, &size) && from != HERE && from < size ? (size_t)(size - from) : 0;
  if (fits > exists) atomic_fetch_add(&control->freed, fits - exists);
  return 0;
}

ssize_t write(int file, const void *bytes, size_t count) {
  size_t fits = room(file, HERE, count);
  if (fits == 0 && count > 0) return no_space();
  return syscall(SYS_write, file, bytes, fits);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t from) {
  size_t fits = room(file, from, count);
  if (fits == 0 && count > 0) return no_space();
  return syscall(SYS_pwrite64, file, bytes, fits, from);
}

ssize_t writev(int file, const struct iovec *pieces, int count) {
  if (!vector_fits(file, pieces, count, HERE)) return no_space();
  return syscall(SYS_writev, file, pieces, count);
}

ssize_t pwritev(int file, const struct iovec *pieces, int count, off_t from) {
  if (!vector_fits(file, pieces, count, from)) return no_space();
  return syscall(SYS_pwritev, file, pieces, count, from, 0L);
}

ssize_t pwritev2(int file, const struct iovec *pieces, int count, off_t from, int flags) {
  if (!vector_fits(file, pieces, count, from)) return no_space();
  return syscall(SYS_pwritev2, file, pieces, count, from, 0L, flags);
}

/* What frees room is let through. */
int fallocate(int file, int mode, off_t from, off_t count) {
  int reserves = (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_ZERO_RANGE)) == 0;
  off_t size;
  if (reserves && is_stuck(file, &size) && from + count > size) return no_space();
  return (int)syscall(SYS_fallocate, file, mode, from, count);
}

/* It returns what went wrong, and leaves errno alone. */
int posix_fallocate(int file, off_t from, off_t count) {
  int before = errno;
  int wrong = fallocate(file, 0, from, count) == 0 ? 0 : errno;
  errno = before;
  return wrong;
}

int ftruncate(int file, off_t size) {
  off_t present;
  if (is_stuck(file, &present) && size > present) return no_space();
  return (int)syscall(SYS_ftruncate, file, size);
}

/* A name below the folder that is the last one of its file. Never changes errno. */
static off_t size_freed_by(int folder, const char *path) {
  if (control == NULL || !atomic_load_explicit(&control->full, memory_order_acquire)) return 0;
  int before = errno;
  off_t size = 0;
  int file = openat(folder, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  struct stat about;
  if (file >= 0) {
    int isLast = fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_nlink == 1;
    if (isLast && is_below(file)) size = about.st_size;
    close(file);
  }
  errno = before;
  return size;
}

int unlinkat(int folder, const char *path, int flags) {
  off_t size = size_freed_by(folder, path);
  int result = (int)syscall(SYS_unlinkat, folder, path, flags);
  if (result == 0 && size > 0) atomic_fetch_add(&control->freed, (uint64_t)size);
  return result;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

#define AS(other) __attribute__((alias(#other)))
ssize_t pwrite64(int, const void *, size_t, off64_t) AS(pwrite);
ssize_t pwritev64(int, const struct iovec *, int, off64_t) AS(pwritev);
ssize_t pwritev64v2(int, const struct iovec *, int, off64_t, int) AS(pwritev2);
int fallocate64(int, int, off64_t, off64_t) AS(fallocate);
int posix_fallocate64(int, off64_t, off64_t) AS(posix_fallocate);
int ftruncate64(int, off64_t) AS(ftruncate);
