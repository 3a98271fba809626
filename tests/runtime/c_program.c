/* A program in C against libmeshseal.so: refuses what is not sealed, runs a layer and compares it with what was
 * recorded, does so again with the model in place of itself, and unloads it. Started by ranks_c_api_test.cc.
 *
 * Usage: c_program PLAN WEIGHTS TOKENS HIDDEN_IN HIDDEN_OUT    the last two hold float32, row by row
 * Exit 0: everything was as it should be; the first thing that was not is printed. */
#include <math.h>
#include <meshseal/meshseal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/c_require.h"

static void succeed(meshseal_error* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s: %s\n", meshseal_error_reason(error), meshseal_error_text(error));
  meshseal_error_free(error);
  exit(1);
}

static void fail(meshseal_error* error, int exit_code, const char* reason) {
  REQUIRE(error != NULL);
  REQUIRE(meshseal_error_exit_code(error) == exit_code);
  REQUIRE(strcmp(meshseal_error_reason(error), reason) == 0);
  REQUIRE(strlen(meshseal_error_text(error)) > 0);
  meshseal_error_free(error);
}

static void close_to(const float* found, const float* expected, size_t elements) {
  float largest = 0;
  for (size_t i = 0; i < elements; ++i) largest = fmaxf(largest, fabsf(expected[i]));
  for (size_t i = 0; i < elements; ++i) REQUIRE(fabsf(found[i] - expected[i]) <= 2e-6f * largest);
}

int main(int argc, char** argv) {
  const meshseal_policy policy = MESHSEAL_POLICY;
  meshseal_session_options options = MESHSEAL_SESSION_OPTIONS;
  meshseal_plan* plan = NULL;
  meshseal_session* session = NULL;
  size_t size = 0;
  size_t input_size = 0;
  size_t expected_size = 0;
  REQUIRE(argc == 6);
  REQUIRE(meshseal_abi_version() == MESHSEAL_ABI_VERSION);

  unsigned char* bytes = read_file(argv[1], &size);
  bytes[size - 1] ^= 1;
  fail(meshseal_plan_open(bytes, size, NULL, 0, &policy, &plan), 3, "digest.payload");
  REQUIRE(plan == NULL);
  bytes[size - 1] ^= 1;
  succeed(meshseal_plan_open(bytes, size, NULL, 0, &policy, &plan));
  REQUIRE(strlen(meshseal_plan_id(plan)) == 64);
  REQUIRE(meshseal_plan_signer(plan) == NULL);

  options.weights = argv[2];
  options.unverified_weights = 1;
  succeed(meshseal_session_create(plan, &options, &session));
  REQUIRE(meshseal_session_model(session) == 1);

  const uint32_t tokens = (uint32_t)atoi(argv[3]);
  const size_t elements = (size_t)tokens * meshseal_plan_hidden(plan);
  float* hidden = read_file(argv[4], &input_size);
  float* expected = read_file(argv[5], &expected_size);
  REQUIRE(input_size == elements * sizeof(float));
  REQUIRE(expected_size == input_size);
  float* output = malloc(input_size);
  REQUIRE(output != NULL);
  meshseal_run run = MESHSEAL_RUN;
  run.phase = MESHSEAL_PREFILL;
  run.tokens = tokens;
  run.elements = elements;
  run.hidden = hidden;
  run.output = output;
  run.slots = (size_t)tokens * meshseal_plan_top_k(plan, run.layer);
  run.selected_ids = calloc(run.slots, sizeof(int32_t));
  run.selected_weights = calloc(run.slots, sizeof(float));
  REQUIRE(run.selected_ids != NULL && run.selected_weights != NULL);
  run.model = 1;
  succeed(meshseal_session_run(session, &run));
  close_to(output, expected, elements);
  for (size_t i = 0; i < run.slots; ++i) REQUIRE(run.selected_ids[i] >= 0 && run.selected_weights[i] > 0);

  uint64_t model = 0;
  meshseal_plan_close(plan);
  succeed(meshseal_plan_open(bytes, size, NULL, 0, &policy, &plan));
  succeed(meshseal_session_replace(session, plan, &options, &model));
  REQUIRE(model == 2 && meshseal_session_model(session) == 2);
  fail(meshseal_session_run(session, &run), 5, "weights.stale");
  run.model = model;
  memset(output, 0, input_size);
  succeed(meshseal_session_run(session, &run));
  close_to(output, expected, elements);
  succeed(meshseal_session_unload(session, model));
  REQUIRE(meshseal_session_model(session) == 0);

  free(run.selected_ids);
  free(run.selected_weights);
  free(bytes);
  free(hidden);
  free(expected);
  free(output);
  meshseal_session_destroy(session);
  meshseal_plan_close(plan);
  return 0;
}
