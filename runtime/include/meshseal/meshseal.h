/* The C interface of the runtime: open a sealed plan, make a session of it, run layers. C11, and C++.
 *
 * Errors. A function that can fail returns NULL when it did what it says, or else an error that the caller frees;
 * then it has written nothing but what its comment names. No C++ exception leaves a function.
 *
 * NULL. A NULL argument is an error of that call unless its comment allows it; closing or freeing NULL does nothing,
 * and asking a NULL handle gives 0 or NULL.
 *
 * Ownership. What a function hands out through its last parameter belongs to the caller, who gives it to the function
 * that ends it, once. Arguments are read during the call only. Texts end with a zero byte, are UTF-8 and live as long
 * as the handle they were asked of.
 *
 * Threads. The library keeps nothing global, so calls on different handles may run at the same time. A session is used
 * by one thread at a time. The functions that take a const meshseal_plan or meshseal_error may be called on one handle
 * from several threads at once; nothing else may use the handle meanwhile. A session starts threads of its own, one per
 * rank, and all of them have ended when a call returns. */
#ifndef MESHSEAL_MESHSEAL_H_
#define MESHSEAL_MESHSEAL_H_

#include <stddef.h>
#include <stdint.h>

/* Of this header. A library of another number is another interface: see meshseal_abi_version. */
#define MESHSEAL_ABI_VERSION 1

#if defined(__GNUC__)
#define MESHSEAL_EXPORT __attribute__((visibility("default")))
#define MESHSEAL_CHECKED __attribute__((visibility("default"), warn_unused_result))
#else
#define MESHSEAL_EXPORT
#define MESHSEAL_CHECKED
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* MESHSEAL_ABI_VERSION of the library. */
MESHSEAL_EXPORT uint32_t meshseal_abi_version(void);

/* The version of the library, such as "0.1.0". Lives for ever. */
MESHSEAL_EXPORT const char* meshseal_version(void);

/* Why something was refused. NULL stands for success. */
typedef struct meshseal_error meshseal_error;

/* What the meshseal tools would exit with: 3 a plan is refused, 4 the launch does not fit, 5 weights, 6 a peer is lost,
 * 7 memory, 8 the computation is invalid, 1 a limit, 2 an argument is wrong, 70 a fault of meshseal. 0 for NULL. */
MESHSEAL_EXPORT int meshseal_error_exit_code(const meshseal_error* error);

/* The reason's slug, such as "digest.payload"; programs may depend on it. "ok" for NULL. */
MESHSEAL_EXPORT const char* meshseal_error_reason(const meshseal_error* error);

/* For people: where, what was found, what was expected. "" for NULL. */
MESHSEAL_EXPORT const char* meshseal_error_text(const meshseal_error* error);

MESHSEAL_EXPORT void meshseal_error_free(meshseal_error* error);

/* What is asked of a plan beyond that it is sealed and coherent. Begin with MESHSEAL_POLICY, which asks for nothing
 * more. A flag is 0 or 1. */
typedef struct meshseal_policy {
  size_t struct_size;           /* sizeof(meshseal_policy); any other size is refused */
  const char* pinned_id;        /* only the plan with this id, 64 lower-case hexadecimal digits; NULL: any */
  const char* keyring;          /* the folder whose keys may sign; a signature is required then; NULL: none */
  uint64_t min_serial;          /* the lowest serial that is accepted */
  int32_t require_signature;    /* 1: refuse everything where `keyring` is NULL */
  int32_t allow_unsigned_hosts; /* 1: take a plan for several hosts that neither a signature nor a pin vouches for */
} meshseal_policy;
#define MESHSEAL_POLICY \
  { sizeof(meshseal_policy), NULL, NULL, 0, 0, 0 }

/* A plan that passed every gate. Never changes, except that a session takes its content. */
typedef struct meshseal_plan meshseal_plan;

/* Passes the `size` bytes of a plan file through every gate: the only way to a plan. `bytes` may change meanwhile, they
 * are copied first. `signature`, the text of the plan's .minisig file, may be NULL with `signature_size` 0. A refused
 * plan has exit code 3 and the reason of the gate that refused it, or "signature.keyring" for a keyring that cannot be
 * read; exit code 2, "usage", means an argument. */
MESHSEAL_CHECKED meshseal_error* meshseal_plan_open(const void* bytes, size_t size, const void* signature,
                                                    size_t signature_size, const meshseal_policy* policy,
                                                    meshseal_plan** plan);

/* 64 hexadecimal digits. */
MESHSEAL_EXPORT const char* meshseal_plan_id(const meshseal_plan* plan);
MESHSEAL_EXPORT uint64_t meshseal_plan_serial(const meshseal_plan* plan);

/* The name in the keyring of the trusted key that signed the plan; NULL where no keyring was asked. */
MESHSEAL_EXPORT const char* meshseal_plan_signer(const meshseal_plan* plan);
/* That key's id as minisign writes it, and what it signed beside the plan; NULL likewise. */
MESHSEAL_EXPORT const char* meshseal_plan_signer_key_id(const meshseal_plan* plan);
MESHSEAL_EXPORT const char* meshseal_plan_trusted_comment(const meshseal_plan* plan);

/* Elements of a token's row, layers of the model (with and without experts), and ranks. */
MESHSEAL_EXPORT uint32_t meshseal_plan_hidden(const meshseal_plan* plan);
MESHSEAL_EXPORT uint32_t meshseal_plan_layers(const meshseal_plan* plan);
MESHSEAL_EXPORT uint32_t meshseal_plan_world(const meshseal_plan* plan);

MESHSEAL_EXPORT void meshseal_plan_close(meshseal_plan* plan);

/* How a session is made. Begin with MESHSEAL_SESSION_OPTIONS and set `weights`. A flag is 0 or 1. */
typedef struct meshseal_session_options {
  size_t struct_size;         /* sizeof(meshseal_session_options); any other size is refused */
  const char* weights;        /* the folder with the checkpoint */
  const char* backend;        /* what computes: "reference" */
  uint32_t deadline_ms;       /* the longest wait for a peer in a run; not 0 */
  int32_t unverified_weights; /* 1: take weights whose digests the plan does not bind */
  int32_t emulate;            /* 1: run a plan for several hosts or processes on threads of this one */
  uint32_t reserved;          /* 0 */
} meshseal_session_options;
#define MESHSEAL_SESSION_OPTIONS \
  { sizeof(meshseal_session_options), NULL, "reference", 30000, 0, 0, 0 }

/* All ranks of a plan as threads of this process, with their weights in memory. */
typedef struct meshseal_session meshseal_session;

/* Reads the weights. The session takes the plan's content, also when it fails: a second session of the same handle is
 * refused ("usage"), so open the plan again for it. The handle still answers, and is still to be closed. */
MESHSEAL_CHECKED meshseal_error* meshseal_session_create(meshseal_plan* plan, const meshseal_session_options* options,
                                                         meshseal_session** session);

/* Phases. */
#define MESHSEAL_DECODE 1
#define MESHSEAL_PREFILL 2

/* Runs one layer: `tokens` rows of `hidden` float32 in, as many out; both have `elements` = tokens * the plan's hidden
 * elements and do not overlap. They may be NULL when that is 0. When ranks fail, `output` is filled with NaN and the
 * session is over: every later run is refused with the same reason. */
MESHSEAL_CHECKED meshseal_error* meshseal_session_run_layer(meshseal_session* session, uint32_t layer, int32_t phase,
                                                            uint32_t tokens, const float* hidden, float* output,
                                                            size_t elements);

MESHSEAL_EXPORT void meshseal_session_destroy(meshseal_session* session);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MESHSEAL_MESHSEAL_H_ */
