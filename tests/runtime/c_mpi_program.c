/* A program in C against libmeshseal_mpi.so, one rank of a world of processes: runs a layer twice and compares what its
 * rank gets with what was recorded. Started by tests/ranks/c_interface.
 *
 * Usage: c_mpi_program PLAN WEIGHTS TOKENS HIDDEN_IN HIDDEN_OUT JOB_KEY [BAD_TOKEN]
 *   HIDDEN_IN and HIDDEN_OUT hold float32, row by row
 *   BAD_TOKEN  the second run's input is not a number in that row
 * Exit 0: everything was as it should be; else the first thing that was not is printed. A rank that meshseal refuses
 * prints "REASON: TEXT" and ends with the exit code of the reason. */
#include <math.h>
#include <meshseal/meshseal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/runtime/c_require.h"

/* Prints what was refused, ends the world as `others` says, and then the process. */
static void end_with(meshseal_world* world, meshseal_error* error, int32_t others) {
  const int exit_code = meshseal_error_exit_code(error);
  fprintf(stderr, "%s: %s\n", meshseal_error_reason(error), meshseal_error_text(error));
  meshseal_world_finish(world, error, others);
  meshseal_error_free(error);
  exit(exit_code);
}

/* The rows of replica `replica` of `replicas`, all of the same size. */
static void rows_are_close(const float* found, const float* expected, size_t elements, uint32_t replica,
                           uint32_t replicas) {
  const size_t first = elements / replicas * replica;
  float largest = 0;
  for (size_t i = 0; i < elements; ++i) largest = fmaxf(largest, fabsf(expected[i]));
  for (size_t i = first; i < first + elements / replicas; ++i)
    REQUIRE(fabsf(found[i] - expected[i]) <= 2e-5f * largest);
}

int main(int argc, char** argv) {
  const meshseal_policy policy = MESHSEAL_POLICY;
  const meshseal_mpi_options mpi_options = MESHSEAL_MPI_OPTIONS;
  meshseal_session_options options = MESHSEAL_SESSION_OPTIONS;
  meshseal_world* world = NULL;
  meshseal_world* second_world = NULL;
  meshseal_plan* plan = NULL;
  meshseal_session* session = NULL;
  meshseal_error* error = NULL;
  size_t size = 0;
  size_t input_size = 0;
  size_t expected_size = 0;
  REQUIRE(argc == 7 || argc == 8);

  error = meshseal_mpi_start(&mpi_options, &world);
  if (error != NULL) end_with(NULL, error, MESHSEAL_OTHERS_END);
  const uint32_t rank = meshseal_world_rank(world);
  error = meshseal_mpi_start(&mpi_options, &second_world);
  REQUIRE(meshseal_error_exit_code(error) == 2 && second_world == NULL);
  meshseal_error_free(error);

  unsigned char* bytes = read_file(argv[1], &size);
  error = meshseal_plan_open(bytes, size, NULL, 0, &policy, &plan);
  if (error != NULL) end_with(world, error, MESHSEAL_OTHERS_END);
  REQUIRE(rank < meshseal_world_size(world));
  options.weights = argv[2];
  options.unverified_weights = 1;
  options.world = world;
  options.job_key = argv[6];
  options.emulate = 1;
  options.deadline_ms = 5000;
  options.load_deadline_ms = 60000;
  error = meshseal_session_create(plan, &options, &session);
  if (error != NULL) end_with(world, error, MESHSEAL_OTHERS_END);

  const uint32_t replicas = meshseal_plan_replicas(plan);
  const uint32_t own = rank / (meshseal_plan_world(plan) / replicas);
  const int is_first = rank % (meshseal_plan_world(plan) / replicas) == 0;
  const uint32_t tokens = (uint32_t)atoi(argv[3]);
  const size_t elements = (size_t)tokens * meshseal_plan_hidden(plan);
  float* hidden = read_file(argv[4], &input_size);
  float* expected = read_file(argv[5], &expected_size);
  REQUIRE(input_size == elements * sizeof(float) && expected_size == input_size);
  REQUIRE(tokens % replicas == 0);
  float* output = malloc(input_size);
  int32_t* ends = malloc(replicas * sizeof(int32_t));
  REQUIRE(output != NULL && ends != NULL);
  meshseal_run run = MESHSEAL_RUN;
  run.phase = MESHSEAL_DECODE;
  run.tokens = tokens;
  run.elements = elements;
  run.hidden = hidden;
  run.output = output;
  run.replicas = replicas;
  run.replica_ends = ends;
  error = meshseal_session_run(session, &run);
  if (error != NULL) end_with(world, error, MESHSEAL_OTHERS_END);
  for (uint32_t replica = 0; replica < replicas; ++replica) {
    REQUIRE(ends[replica] == (rank == 0 || replica == own ? MESHSEAL_REPLICA_WELL : MESHSEAL_REPLICA_ELSEWHERE));
    if (rank == 0 || (is_first && replica == own)) rows_are_close(output, expected, elements, replica, replicas);
  }

  const long bad = argc == 8 ? atol(argv[7]) : -1;
  if (bad >= 0) hidden[(size_t)bad * (elements / tokens)] = NAN;
  error = meshseal_session_run(session, &run);
  const uint32_t failed = bad < 0 ? replicas : (uint32_t)bad / (tokens / replicas);
  REQUIRE((error != NULL) == (failed == own || (rank == 0 && failed < replicas)));
  for (uint32_t replica = 0; replica < replicas; ++replica) {
    if (ends[replica] == MESHSEAL_REPLICA_ELSEWHERE) continue;
    REQUIRE(ends[replica] == (replica == failed ? MESHSEAL_REPLICA_FAILED : MESHSEAL_REPLICA_WELL));
    if (replica == failed) REQUIRE(isnan(output[elements / replicas * replica]));
    if (replica != failed && is_first) rows_are_close(output, expected, elements, replica, replicas);
  }
  meshseal_session_destroy(session);
  meshseal_plan_close(plan);
  free(ends);
  free(output);
  free(expected);
  free(hidden);
  free(bytes);
  if (error != NULL) end_with(world, error, replicas > 1 ? MESHSEAL_OTHERS_GO_ON : MESHSEAL_OTHERS_END);
  fprintf(stderr, "rank %u of %u ended well\n", rank, meshseal_world_size(world));
  meshseal_world_finish(world, NULL, MESHSEAL_OTHERS_END);
  return 0;
}
