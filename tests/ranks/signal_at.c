// Loaded before a program with MPI (LD_PRELOAD), it gives one rank a signal at one point of its life. The program has
// no hook for that: calls of MPI are counted through MPI's profiling interface. Variables that it reads:
// - SIGNAL_AT_RANK: the rank, as OMPI_COMM_WORLD_RANK says it; without it nothing is raised
// - SIGNAL_AT_POINT: init (before MPI is started), started (after it), finalize (before it is ended), or N (before the
//   Nth message that the rank sends, from 1)
// - SIGNAL_AT_NUMBER: the signal
// - SIGNAL_AT_MARK: a file to which the time of the signal is written, in nanoseconds of CLOCK_MONOTONIC
// - SIGNAL_AT_TRACE: a file, with the rank after its name, to which each message is written: receiver, tag, bytes
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long sent;  // the program sends from one thread at a time

static void WriteLine(const char* path, int flags, const char* text, int length) {
  const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
  if (file < 0 || write(file, text, (size_t)length) != length) _exit(99);
  close(file);
}

static void MaybeRaise(const char* point) {
  const char* rank = getenv("SIGNAL_AT_RANK");
  const char* own = getenv("OMPI_COMM_WORLD_RANK");
  const char* at = getenv("SIGNAL_AT_POINT");
  const char* number = getenv("SIGNAL_AT_NUMBER");
  const char* mark = getenv("SIGNAL_AT_MARK");
  if (rank == NULL || own == NULL || at == NULL || number == NULL || mark == NULL) return;
  if (strcmp(rank, own) != 0 || strcmp(at, point) != 0) return;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  char text[64];
  const int length = snprintf(text, sizeof(text), "%lld\n", (long long)now.tv_sec * 1000000000LL + now.tv_nsec);
  WriteLine(mark, O_TRUNC, text, length);
  raise(atoi(number));
}

__attribute__((visibility("default"))) int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  MaybeRaise("init");
  const int result = PMPI_Init_thread(argc, argv, required, provided);
  MaybeRaise("started");
  return result;
}

__attribute__((visibility("default"))) int MPI_Isend(const void* bytes, int count, MPI_Datatype type, int to, int tag,
                                                     MPI_Comm comm, MPI_Request* request) {
  char point[32];
  snprintf(point, sizeof(point), "%ld", ++sent);
  const char* trace = getenv("SIGNAL_AT_TRACE");
  const char* own = getenv("OMPI_COMM_WORLD_RANK");
  if (trace != NULL && own != NULL) {
    char path[4096];
    char text[96];
    snprintf(path, sizeof(path), "%s.%s", trace, own);
    const int length = snprintf(text, sizeof(text), "%d %d %d\n", to, tag, count);
    WriteLine(path, O_APPEND, text, length);
  }
  MaybeRaise(point);
  return PMPI_Isend(bytes, count, type, to, tag, comm, request);
}

__attribute__((visibility("default"))) int MPI_Finalize(void) {
  MaybeRaise("finalize");
  return PMPI_Finalize();
}
