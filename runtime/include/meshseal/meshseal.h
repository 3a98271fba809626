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
#define MESHSEAL_ABI_VERSION 4

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

/* Replicas that fail alone: those of a plan with the failure scope "replica", which are its ranks in equal parts, one
 * after the other; 1 for every other plan. */
MESHSEAL_EXPORT uint32_t meshseal_plan_replicas(const meshseal_plan* plan);

/* k, the experts that a layer selects for a token; 0 for a layer without experts. */
MESHSEAL_EXPORT uint32_t meshseal_plan_top_k(const meshseal_plan* plan, uint32_t layer);

MESHSEAL_EXPORT void meshseal_plan_close(meshseal_plan* plan);

/* Ranks as processes, one each, on one or several hosts: all of them make the same calls in the same order. A program
 * that wants that links libmeshseal_mpi instead of libmeshseal; it is the same interface, and brings an MPI with it.
 * libmeshseal has none, so that it can be linked where another one is, and refuses to start one ("not-built"). */
typedef struct meshseal_world meshseal_world;

/* Begin with MESHSEAL_MPI_OPTIONS. */
typedef struct meshseal_mpi_options {
  size_t struct_size;         /* sizeof(meshseal_mpi_options); any other size is refused */
  uint32_t start_deadline_ms; /* the longest wait for all ranks to have started; not 0 */
  uint32_t end_deadline_ms;   /* and to come to meshseal_world_finish; not 0 */
} meshseal_mpi_options;
#define MESHSEAL_MPI_OPTIONS \
  { sizeof(meshseal_mpi_options), 600000, 30000 }

/* Starts MPI as the rank that mpirun or srun made of this process; alone, it is a world of one. Once in a process,
 * which may not have started MPI itself ("usage"). Refused as well: launchers' variables that contradict each other
 * ("usage") or MPI ("preflight.world"). MPI cannot be left while it starts: where other ranks do not come in time, the
 * process says so on standard error and ends with the exit code 6. */
MESHSEAL_CHECKED meshseal_error* meshseal_mpi_start(const meshseal_mpi_options* options, meshseal_world** world);

/* This process's rank, from 0, and how many there are. */
MESHSEAL_EXPORT uint32_t meshseal_world_rank(const meshseal_world* world);
MESHSEAL_EXPORT uint32_t meshseal_world_size(const meshseal_world* world);

/* What becomes of the other ranks when one has failed. */
#define MESHSEAL_OTHERS_END 0
#define MESHSEAL_OTHERS_GO_ON 1

/* Ends MPI together with all other ranks, once all sessions over it are destroyed, and frees the world: the last call
 * of a rank. `error` is NULL, or why this rank ends; it stays the caller's. With MESHSEAL_OTHERS_END, it is told to all
 * others and ends the whole job with its exit code: the call does not return. MESHSEAL_OTHERS_GO_ON is for a run that
 * failed where replicas fail alone: the call waits for as long as others run, and returns. Where some rank does not
 * come, the process ends as in meshseal_mpi_start, or with the exit code of `error`. */
MESHSEAL_EXPORT void meshseal_world_finish(meshseal_world* world, const meshseal_error* error, int32_t others);

/* How a model is loaded. Begin with MESHSEAL_SESSION_OPTIONS and set `weights`. A flag is 0 or 1. */
typedef struct meshseal_session_options {
  size_t struct_size;    /* sizeof(meshseal_session_options); any other size is refused */
  const char* weights;   /* the checkpoint, a folder or a .gguf file; NULL where the plan's weights are synthetic */
  const char* digests;   /* the digest list that the plan binds, by which weights are verified; NULL: none */
  const char* backend;   /* what computes: "reference"; of a library with the CUDA backend also "cuda", a GPU for each
                          * rank, and "cuda-loopback", ranks that share one GPU, an emulation */
  meshseal_world* world; /* where the ranks are; lives longer than the session. NULL: all are threads of this process */
  const char*
      job_key; /* file of the secret that ranks on several hosts share: 32 to 4096 bytes, of its owner alone;
                * NULL:   none ("preflight.job-key" where the ranks are on several hosts, unless the next is 1) */
  int32_t isolated_network;  /* 1: nobody but the ranks is on the network between them; not together with `job_key` */
  uint32_t deadline_ms;      /* the longest wait for a peer in a run; not 0 */
  uint32_t load_deadline_ms; /* the same while the model is loaded, where peers read their weights meanwhile; not 0 */
  uint32_t
      load_threads; /* that read weights, of all ranks of this process together, up to 1024; 0: one for each core */
  int32_t unverified_weights;         /* 1: without `digests`, take weights as they are */
  int32_t emulate;                    /* 1: run a plan on other hosts, devices or ranks than it is for */
  int32_t without_management_library; /* 1: use devices although the driver's library does not tell their modes */
} meshseal_session_options;
#define MESHSEAL_SESSION_OPTIONS \
  { sizeof(meshseal_session_options), NULL, NULL, "reference", NULL, NULL, 0, 30000, 600000, 0, 0, 0, 0 }

/* The resident model: a plan with this process's ranks and their weights in memory. */
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
  uint32_t replicas;          /* elements of `replica_ends`; 0, or meshseal_plan_replicas */
  size_t elements;            /* T * H: of `hidden` and of `output`, which may be NULL when this is 0 */
  const float* hidden;        /* in, row by row */
  float* output;              /* out, row by row */
  const int32_t* token_ids;   /* in, T of them, exactly where the layer has a token table; else NULL */
  size_t slots;               /* T * k: of each of the four arrays below that is not NULL; token t has [t*k, t*k + k) */
  const int32_t* given_ids;   /* in, both given exactly where the layer's routing is precomputed: the experts of */
  const float* given_weights; /* each token and their weights, taken as they are; else both NULL */
  int32_t* selected_ids;      /* out, or NULL: the experts of each token */
  float* selected_weights;    /* out, or NULL: their weights, as multiplied in */
  int32_t* replica_ends;      /* out, or NULL: MESHSEAL_REPLICA_... of each; as they were when nothing has run */
} meshseal_run;
#define MESHSEAL_RUN \
  { sizeof(meshseal_run), 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL }

/* How a replica ended a run: well, with a failure in this run or one before, or as another process knows. */
#define MESHSEAL_REPLICA_WELL 0
#define MESHSEAL_REPLICA_FAILED 1
#define MESHSEAL_REPLICA_ELSEWHERE 2

/* When ranks fail, `output` is filled with NaN and the model is over: every later run of it is refused with the same
 * reason, until another takes its place.
 *
 * Where replicas fail alone, the run fails likewise, and names those that failed; what the others gave is in the arrays
 * all the same, and of those that failed NaN and the expert -1. Later runs go on with the others.
 *
 * Where ranks are processes, rank 0 gets the whole result. The first rank of a replica that fails alone gets its own
 * replica's part of it, and its run ends as its replica does; all other ranks get nothing that they may use. */
MESHSEAL_CHECKED meshseal_error* meshseal_session_run(meshseal_session* session, const meshseal_run* run);

/* Ends the resident model too. */
MESHSEAL_EXPORT void meshseal_session_destroy(meshseal_session* session);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MESHSEAL_MESHSEAL_H_ */
