/* What the tests' programs in C share: what must be so, and a file's bytes. */
#ifndef MESHSEAL_TESTS_RUNTIME_C_REQUIRE_H_
#define MESHSEAL_TESTS_RUNTIME_C_REQUIRE_H_

#include <stdio.h>
#include <stdlib.h>

/* Says what is not so and ends with 99, which is no exit code of meshseal's. */
#define REQUIRE(condition)                                                    \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(99);                                                               \
    }                                                                         \
  } while (0)

static void* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  long end = 0;
  void* bytes = NULL;
  REQUIRE(file != NULL);
  REQUIRE(fseek(file, 0, SEEK_END) == 0);
  end = ftell(file);
  REQUIRE(end > 0);
  rewind(file);
  bytes = malloc((size_t)end);
  REQUIRE(bytes != NULL);
  REQUIRE(fread(bytes, 1, (size_t)end, file) == (size_t)end);
  fclose(file);
  *size = (size_t)end;
  return bytes;
}

#endif /* MESHSEAL_TESTS_RUNTIME_C_REQUIRE_H_ */
