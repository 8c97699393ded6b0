#pragma once

// Which lock guards what, for Clang's analysis (-Wthread-safety), which stops a build that touches
// something without its lock. Other compilers see nothing of it.

#ifdef __clang__
#define PENSTOCK_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define PENSTOCK_THREAD_SAFETY(attribute)
#endif

/// A class whose objects are locks; `kind` is for messages.
#define PENSTOCK_CAPABILITY(kind) PENSTOCK_THREAD_SAFETY(capability(kind))
/// A class whose objects hold a lock from construction to destruction.
#define PENSTOCK_SCOPED_CAPABILITY PENSTOCK_THREAD_SAFETY(scoped_lockable)
/// A member that is read and written with `lock` only.
#define PENSTOCK_GUARDED_BY(lock) PENSTOCK_THREAD_SAFETY(guarded_by(lock))
/// A function that is called with the lock, takes it, releases it, or says that it is held.
#define PENSTOCK_REQUIRES(lock) PENSTOCK_THREAD_SAFETY(requires_capability(lock))
#define PENSTOCK_ACQUIRE(...) PENSTOCK_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define PENSTOCK_RELEASE(...) PENSTOCK_THREAD_SAFETY(release_capability(__VA_ARGS__))
#define PENSTOCK_ASSERT_HELD(lock) PENSTOCK_THREAD_SAFETY(assert_capability(lock))
/// A function that calls what its caller gave it, with the locks that the caller holds.
#define PENSTOCK_CALLERS_LOCKS PENSTOCK_THREAD_SAFETY(no_thread_safety_analysis)
