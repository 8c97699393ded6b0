#pragma once

/// penstock in C: keeps tensors on drives and in RAM and brings each where it is needed.
///
///     penstock_engine_options options = {.struct_size = sizeof options};
///     options.paths = (const char* const[]){"/nvme0"};
///     options.path_count = 1;
///     penstock_engine* engine = NULL;
///     if (penstock_open(&options, &engine) != PENSTOCK_OK) {
///       fprintf(stderr, "%s\n", penstock_last_error());
///     }
///
/// **Errors.** Whatever can fail returns PENSTOCK_OK (0) or a negative penstock_status; the
/// sentence that goes with it is penstock_last_error(), one a thread. Out parameters of functions
/// that fail are NULL or untouched. No mistake of a caller's stops the process: a null pointer, a
/// handle that was released or never was one, a closed engine, an unknown name, a wrong size and a
/// struct that is too small are all errors.
///
/// **Handles** (engine, lease, ticket) are names for things inside the library, not addresses; a
/// value is never used twice. The caller that gets one releases it once; leases and tickets outlive
/// their engine.
///
/// **Threads.** Every function may be called from any thread at any time, on the same handles too;
/// a handle from one thread may be released on another. Functions that may block say so.
/// No handle survives fork() into the child.
///
/// **Memory.** Names, texts and structs that are passed in are copied or done with when a function
/// returns. Tensor bytes are not copied: which memory must stay for how long is said there.
///
/// **Structs** begin with `struct_size`, which the caller sets to sizeof of the struct before every
/// call. Set the rest to 0 first: 0 is every field's default, and fields that later versions add
/// are then what they should be.

#include <stddef.h>
#include <stdint.h>

/// The version of all of penstock: CMake and Python read it here.
#define PENSTOCK_VERSION_MAJOR 0
#define PENSTOCK_VERSION_MINOR 1
#define PENSTOCK_VERSION_PATCH 0

#if defined(__GNUC__)
#define PENSTOCK_API __attribute__((visibility("default")))
#else
#define PENSTOCK_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum penstock_status {
  PENSTOCK_OK = 0,
  PENSTOCK_ERROR_ARGUMENT = -1,        ///< a null pointer, a value out of range, no handle of ours
  PENSTOCK_ERROR_UNKNOWN_TENSOR = -2,  ///< a name that was not declared, or was forgotten
  PENSTOCK_ERROR_WRONG_SIZE = -3,      ///< bytes that are not the tensor's
  PENSTOCK_ERROR_CLOSED = -4,     ///< a closed engine; a lease or ticket that was released already
  PENSTOCK_ERROR_EXHAUSTED = -5,  ///< a budget or the memory is spent; the message has the number
  PENSTOCK_ERROR_CORRUPT = -6,    ///< bytes came back that are not the ones written
  PENSTOCK_ERROR_CONFIGURATION = -7,  ///< a key, value or rule of the configuration
  PENSTOCK_ERROR_UNSUPPORTED = -8,    ///< this build or this machine cannot do it
  PENSTOCK_ERROR_STORAGE = -9,  ///< a drive or file system refused: penstock_last_errno(), the path
  PENSTOCK_ERROR_PENDING = -10,  ///< not done yet, in the time given
  PENSTOCK_ERROR_INTERNAL = -11  ///< a fault of penstock's
} penstock_status;

/// Tensors on drives and in RAM.
typedef struct penstock_engine penstock_engine;
/// A hold on the memory of one tensor's content.
typedef struct penstock_lease penstock_lease;
/// An operation that has been begun.
typedef struct penstock_ticket penstock_ticket;

// --- Errors and version -----------------------------------------------------------------------

/// What the latest call that failed on this thread has to say: one sentence in UTF-8, "" if none
/// has. The library's; good until the next call that fails on this thread. Never NULL.
PENSTOCK_API const char* penstock_last_error(void);
/// The errno of the same, 0 where the system was not to blame.
PENSTOCK_API int penstock_last_errno(void);
/// "PENSTOCK_ERROR_CLOSED" and so on. Static; never NULL.
PENSTOCK_API const char* penstock_status_name(int status);
/// The library's version, MAJOR.MINOR.PATCH. Static.
PENSTOCK_API const char* penstock_version(void);

// --- Engines ----------------------------------------------------------------------------------

typedef struct penstock_engine_options {
  size_t struct_size;
  /// A DeepSpeed JSON (its offload keys and the `penstock` block are read): a file's name, or the
  /// text itself. NULL: defaults. At most one of the two.
  const char* config_file;
  const char* config_json;
  /// Directories to swap to, made where they are missing. NULL: those of the configuration.
  const char* const* paths;
  size_t path_count;
  /// Processes of this job on the machine, among whom memory is divided. 0: 1.
  uint32_t ranks_on_node;
  uint32_t reserved;  ///< 0
  /// Called once for each condition with a sentence that a user can act on, behind its code
  /// (`[overflow] …`, docs/TUNING.md); from any thread, and must neither block nor call penstock.
  /// NULL: such sentences go to stderr (PENSTOCK_LOG_LEVEL, PENSTOCK_LOG_FILE).
  /// `warn_context` is passed on as it is and must stay until penstock_close() has returned.
  void (*warn)(void* warn_context, const char* sentence);
  void* warn_context;
} penstock_engine_options;

/// Starts an engine with a store of its own: files without a name, gone with the process, but where
/// the configuration has `"mode": "durable"` (docs/STORES.md). May block. `*engine` is the caller's
/// to close.
/// Errors: CONFIGURATION (no path anywhere, too), STORAGE (a path), UNSUPPORTED, ARGUMENT.
PENSTOCK_API int penstock_open(const penstock_engine_options* options, penstock_engine** engine);

/// Waits for operations in flight, then gives up drives and memory. The handle is gone whatever
/// this returns; leases that are out stay readable, and calls on other threads end with CLOSED.
/// Blocks. Errors: the first failed write that no ticket, flush or call has reported.
PENSTOCK_API int penstock_close(penstock_engine* engine);

// --- Tensors ----------------------------------------------------------------------------------

typedef struct penstock_tensor_info {
  size_t struct_size;
  const char* dtype;      ///< "bf16", "float32", "u8"…; NULL: "u8"
  const char* role;       ///< "param", "master", "moment", "gradient", "buffer"; NULL: "param"
  const uint64_t* shape;  ///< `dimensions` extents; a scalar has none. At most 2^56 bytes
  size_t dimensions;      ///< at most 64
} penstock_tensor_info;

/// Makes a tensor known by its name; it has no content yet.
/// Errors: ARGUMENT (name taken, unknown type or role, too large), WRONG_SIZE (no bytes).
PENSTOCK_API int penstock_declare(penstock_engine* engine, const char* name,
                                  const penstock_tensor_info* info);
/// Drops a tensor and its space on drives; leases that are out stay valid.
PENSTOCK_API int penstock_forget(penstock_engine* engine, const char* name);

/// Where a tensor is at this moment.
typedef struct penstock_tensor_state {
  size_t struct_size;
  uint64_t bytes;
  uint64_t generation;  ///< counts contents; 0: none yet
  const char*
      place;  ///< what the plan says: "class", "dedicated", "ram", "stream", "device"; static
  uint32_t in_memory;  ///< 1: a get would not read
  uint32_t resident;   ///< 1: kept in RAM by plan
  uint32_t on_drive;   ///< 1: some generation is readable from a drive
  uint32_t writing;    ///< 1: a write is in flight
} penstock_tensor_state;

/// Fills `*state`, as far as its struct_size reaches.
PENSTOCK_API int penstock_state(penstock_engine* engine, const char* name,
                                penstock_tensor_state* state);

// --- Contents in and out ----------------------------------------------------------------------

typedef enum penstock_access {
  PENSTOCK_READ = 0,  ///< the content stays what it is; all readers share the memory
  /// The holder changes the content, then commits it or drops the lease, which leaves the content
  /// as it was; but a tensor that is kept in RAM (`ram_bytes`, rules) has one copy, which is
  /// changed.
  PENSTOCK_UPDATE = 1
} penstock_access;

/// Writes the tensor's next content from `data`, `bytes` of it. The former content stays readable
/// until this one is whole, and for good if it fails; but a durable engine's tensor that is
/// resident in RAM has the new one there, and penstock_flush() tries again. Blocks; then `data` is
/// the caller's again. Errors: UNKNOWN_TENSOR, WRONG_SIZE, STORAGE, EXHAUSTED.
PENSTOCK_API int penstock_put(penstock_engine* engine, const char* name, const void* data,
                              size_t bytes);
/// As penstock_put(), but returns at once: `data` must stay as it is until the ticket is done.
PENSTOCK_API int penstock_put_async(penstock_engine* engine, const char* name, const void* data,
                                    size_t bytes, penstock_ticket** ticket);

/// A lease on the content. Blocks until it is in memory. `access`: a penstock_access. `*lease` is
/// the caller's to release.
/// Errors: UNKNOWN_TENSOR, ARGUMENT (no content yet; a second update, or any get while the one copy
/// of a tensor that is kept in RAM is updated), STORAGE, CORRUPT, EXHAUSTED.
PENSTOCK_API int penstock_get(penstock_engine* engine, const char* name, int access,
                              penstock_lease** lease);
/// Begins to fetch; penstock_ticket_lease() has the lease.
PENSTOCK_API int penstock_get_async(penstock_engine* engine, const char* name, int access,
                                    penstock_ticket** ticket);

/// Reads the content into memory of the caller's, at any address. Blocks. Errors as penstock_get(),
/// and WRONG_SIZE; after one, what the memory holds is not defined.
PENSTOCK_API int penstock_get_into(penstock_engine* engine, const char* name, void* target,
                                   size_t bytes);
/// As penstock_get_into(), but returns at once: `target` must stay, and belongs to penstock, until
/// the ticket is done.
PENSTOCK_API int penstock_get_into_async(penstock_engine* engine, const char* name, void* target,
                                         size_t bytes, penstock_ticket** ticket);

/// Memory for the tensor's next content, to be filled and committed. May block. `*lease` is the
/// caller's to release. Of a tensor that is kept in RAM it may be the content's own memory, as with
/// PENSTOCK_UPDATE: what is written there stays, also without a commit.
PENSTOCK_API int penstock_allocate(penstock_engine* engine, const char* name,
                                   penstock_lease** lease);
/// Makes what `lease` (of penstock_allocate(), or a get with PENSTOCK_UPDATE, from this engine)
/// holds the tensor's next content. Blocks until it is where it belongs. The lease stays the
/// caller's to release, and is to read only from then on, since other readers share its memory: to
/// change the tensor again, get it again.
PENSTOCK_API int penstock_commit(penstock_engine* engine, penstock_lease* lease);
/// As penstock_commit(), but returns at once. The lease may be released at once.
PENSTOCK_API int penstock_commit_async(penstock_engine* engine, penstock_lease* lease,
                                       penstock_ticket** ticket);

/// Says which tensors will be needed next, in this order. A hint; does not block.
/// Errors: UNKNOWN_TENSOR, and then none of them is read ahead.
PENSTOCK_API int penstock_prefetch(penstock_engine* engine, const char* const* names, size_t count);
/// Blocks until everything put or committed so far is where it belongs. Errors: the first
/// failed write that was not reported before.
PENSTOCK_API int penstock_flush(penstock_engine* engine);

// --- Leases -----------------------------------------------------------------------------------

/// The memory of a lease: `*data` is good until penstock_release(), after penstock_close() too.
/// Written to only if the lease is for an update. Either pointer may be NULL.
PENSTOCK_API int penstock_lease_memory(penstock_lease* lease, void** data, size_t* bytes);
/// Gives the memory back. Errors: CLOSED the second time; of two threads that release the same
/// lease at once, one gets it.
PENSTOCK_API int penstock_release(penstock_lease* lease);

// --- Tickets ----------------------------------------------------------------------------------

/// Blocks until the operation is done, or `timeout_ns` nanoseconds have passed (0: only looks,
/// less: for ever). Errors: PENDING; else the operation's, as often as it is asked.
PENSTOCK_API int penstock_ticket_wait(penstock_ticket* ticket, int64_t timeout_ns);
/// Blocks until a penstock_get_async() is done; `*lease` is the caller's to release. Asked again it
/// gives another handle on the same memory, as long as one is held.
PENSTOCK_API int penstock_ticket_lease(penstock_ticket* ticket, penstock_lease** lease);
/// Lets go of the ticket. The operation goes on, and memory that it was given must stay until it is
/// done (penstock_close() waits for that); a lease that was not taken is released.
PENSTOCK_API int penstock_ticket_drop(penstock_ticket* ticket);

// --- Reports ----------------------------------------------------------------------------------

/// Plans anew for the tensors that are known: slots, residents, what is read in parts. The first
/// get does so by itself. Errors: CONFIGURATION, EXHAUSTED: a rule that the budgets cannot hold.
PENSTOCK_API int penstock_plan(penstock_engine* engine);
/// The plan in force as a JSON document (`penstock.placement/1`), at most `capacity` bytes with its
/// final 0 into `text`. `*length` (NULL: not wanted) is its length without the 0.
/// Errors: WRONG_SIZE: too long for `capacity`, and then `text` is not touched. (NULL, 0) asks for
/// the length only and is no error.
PENSTOCK_API int penstock_plan_json(penstock_engine* engine, char* text, size_t capacity,
                                    size_t* length);

/// Counters since the engine was opened, and what it holds now. Bytes are of tensors unless said
/// otherwise.
typedef struct penstock_engine_stats {
  size_t struct_size;
  uint64_t read_bytes;   ///< moved by the kernel, identity blocks included
  uint64_t write_bytes;  ///< likewise
  uint64_t io_requests;
  uint64_t io_errors;
  uint64_t tensor_read_bytes;
  uint64_t tensor_write_bytes;
  uint64_t gets;
  uint64_t resident_hits;  ///< gets served from RAM by plan
  uint64_t hits;           ///< gets whose content was in memory
  uint64_t late;           ///< gets whose content was on its way
  uint64_t misses;         ///< gets that began the read themselves
  uint64_t predicted;      ///< gets that were predicted
  uint64_t ahead_dropped;  ///< read ahead and given up unused
  uint64_t stall_ns;       ///< time that callers waited for reads, and for memory
  uint64_t commits;
  uint64_t write_failures;
  uint64_t resident_bytes;  ///< kept in RAM by plan, now
  uint64_t resident_bytes_max;
  uint64_t lookahead_bytes;      ///< read ahead and not used yet, now
  uint64_t drive_bytes;          ///< extents in use on drives, now
  uint64_t pinned_bytes;         ///< memory registered for I/O, now
  uint64_t pool_live_bytes;      ///< of it, in use
  uint64_t pool_live_bytes_max;  ///< the largest value of the same
  uint64_t overflow_bytes;       ///< pageable memory beyond the pool, now
  uint64_t overflow_bytes_max;
  uint64_t pool_waits;               ///< leases that had to wait for a slot
  uint64_t overflows;                ///< leases that went to pageable memory
  uint64_t overflow_buffers;         ///< of these, since the first plan, for want of pinned memory
  uint64_t overflow_ns;              ///< time that callers spent on getting them
  uint64_t held_bytes_max;           ///< most bytes of buffers, pinned and pageable, held at once
  uint64_t held_overflow_bytes_max;  ///< most in pageable ones
} penstock_engine_stats;

/// Fills `*stats`, as far as its struct_size reaches. Does not block.
PENSTOCK_API int penstock_stats(penstock_engine* engine, penstock_engine_stats* stats);

#ifdef __cplusplus
}  // extern "C"
#endif
