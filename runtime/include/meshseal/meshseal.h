/* The C interface of the runtime: open a sealed plan, make a session of it, run layers, put another model in its place.
 * C11, and C++.
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
 * Threads. The library keeps nothing global, so calls on different handles may run at the same time. A session runs for
 * one thread at a time; other threads may call meshseal_session_replace, _unload and _model meanwhile, also while a run
 * or another of these calls goes on: a run keeps the model that it began with. Nobody may be in a call when a session
 * is destroyed. The functions that take a const meshseal_plan or meshseal_error may be called on one handle from
 * several threads at once; nothing else may use the handle meanwhile. A session starts threads of its own, one per rank
 * and those that load, and all of them have ended when a call returns. */
#ifndef MESHSEAL_MESHSEAL_H_
#define MESHSEAL_MESHSEAL_H_

#include <stddef.h>
#include <stdint.h>

/* Of this header. A library of another number is another interface: see meshseal_abi_version. */
#define MESHSEAL_ABI_VERSION 2

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

/* k, the experts that a layer selects for a token; 0 for a layer without experts. */
MESHSEAL_EXPORT uint32_t meshseal_plan_top_k(const meshseal_plan* plan, uint32_t layer);

MESHSEAL_EXPORT void meshseal_plan_close(meshseal_plan* plan);

/* How a model is loaded. Begin with MESHSEAL_SESSION_OPTIONS and set `weights`. A flag is 0 or 1. */
typedef struct meshseal_session_options {
  size_t struct_size;    /* sizeof(meshseal_session_options); any other size is refused */
  const char* weights;   /* the checkpoint, a folder or a .gguf file; NULL where the plan's weights are synthetic */
  const char* digests;   /* the digest list that the plan binds, by which weights are verified; NULL: none */
  const char* backend;   /* what computes: "reference" */
  uint32_t deadline_ms;  /* the longest wait for a peer in a run; not 0 */
  uint32_t load_threads; /* that read weights, of all ranks together, up to 1024; 0: one for each core */
  int32_t unverified_weights; /* 1: without `digests`, take weights as they are */
  int32_t emulate;            /* 1: run a plan for several hosts or processes on threads of this one */
} meshseal_session_options;
#define MESHSEAL_SESSION_OPTIONS \
  { sizeof(meshseal_session_options), NULL, NULL, "reference", 30000, 0, 0, 0 }

/* All ranks of a plan as threads of this process, with their weights in memory: the resident model. */
typedef struct meshseal_session meshseal_session;

/* Reads and verifies the weights. The session takes the plan's content, also when it fails: a second use of the same
 * handle is refused ("usage"), so open the plan again for it. The handle still answers, and is still to be closed. */
MESHSEAL_CHECKED meshseal_error* meshseal_session_create(meshseal_plan* plan, const meshseal_session_options* options,
                                                         meshseal_session** session);

/* Loads another plan, which it takes as meshseal_session_create does, beside the resident model and then puts it in
 * that one's place; `model` gets its number. The plan's mesh is the resident plan's ("usage"), with room for both
 * ("limit"). When it fails, the resident model is as it was, and it serves meanwhile. */
MESHSEAL_CHECKED meshseal_error* meshseal_session_replace(meshseal_session* session, meshseal_plan* plan,
                                                          const meshseal_session_options* options, uint64_t* model);

/* Gives the memory of the model back. Once more for the same model does nothing. Refused while it runs ("usage") and
 * for a number that is not the resident model's ("weights.stale"). */
MESHSEAL_CHECKED meshseal_error* meshseal_session_unload(meshseal_session* session, uint64_t model);

/* The resident model's number, from 1 on and never used again in a session; 0 where there is none. */
MESHSEAL_EXPORT uint64_t meshseal_session_model(const meshseal_session* session);

/* Phases. */
#define MESHSEAL_DECODE 1
#define MESHSEAL_PREFILL 2

/* What to run: T tokens through one layer. H is the plan's hidden elements, k the layer's meshseal_plan_top_k. Begin
 * with MESHSEAL_RUN and set what is needed. No arrays overlap. */
typedef struct meshseal_run {
  size_t struct_size; /* sizeof(meshseal_run); any other size is refused */
  uint64_t model;     /* the one that must be resident ("weights.stale"); 0: whichever is */
  uint32_t layer;
  int32_t phase;              /* MESHSEAL_DECODE or MESHSEAL_PREFILL */
  uint32_t tokens;            /* T */
  uint32_t reserved;          /* 0 */
  size_t elements;            /* T * H: of `hidden` and of `output`, which may be NULL when this is 0 */
  const float* hidden;        /* in, row by row */
  float* output;              /* out, row by row */
  const int32_t* token_ids;   /* in, T of them, exactly where the layer has a token table; else NULL */
  size_t slots;               /* T * k: of each of the four arrays below that is not NULL; token t has [t*k, t*k + k) */
  const int32_t* given_ids;   /* in, both given exactly where the layer's routing is precomputed: the experts of */
  const float* given_weights; /* each token and their weights, taken as they are; else both NULL */
  int32_t* selected_ids;      /* out, or NULL: the experts of each token */
  float* selected_weights;    /* out, or NULL: their weights, as multiplied in */
} meshseal_run;
#define MESHSEAL_RUN \
  { sizeof(meshseal_run), 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL }

/* When ranks fail, `output` is filled with NaN and the model is over: every later run of it is refused with the same
 * reason, until another takes its place. */
MESHSEAL_CHECKED meshseal_error* meshseal_session_run(meshseal_session* session, const meshseal_run* run);

/* Ends the resident model too. */
MESHSEAL_EXPORT void meshseal_session_destroy(meshseal_session* session);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MESHSEAL_MESHSEAL_H_ */
