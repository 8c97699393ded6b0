#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "alloc/process_mark.h"
#include "alloc/result.h"
#include "swap/plan/inventory.h"
#include "swap/plan/path_config.h"
#include "swap/tensor.h"

namespace penstock {

class EngineCore;
class TraceLog;
enum class TraceOp : std::uint8_t;

/// The tensors that a SwapEngine knows: namespaces, names, and what is known of each. Thread-safe.
class TensorDirectory {
 public:
  TensorDirectory(const TensorDirectory&) = delete;
  TensorDirectory& operator=(const TensorDirectory&) = delete;

  /// A store on `paths` (empty: the configuration's); directories are created. A durable store
  /// brings its tensors along, declared and readable without being copied (tensors(), find()); one
  /// warning for each drive that cannot be opened, names of tensors included. Errors: errno and
  /// path; EBUSY, naming the process that has the durable store.
  Result<NamespaceId> open_namespace(std::string name, std::vector<PathConfig> paths = {});
  /// Drops the namespace's tensors and memory; leases already out stay valid. Pinned memory that
  /// nothing needs any more goes with the next plan(), pageable memory kept for reuse with the last
  /// namespace. Scratch: and its disk space, once writes in flight have ended. Durable: after
  /// writing and publishing, as flush(); the store may then be opened by others, once each
  /// ContentWriter that has begun a content there has gone: it may still be writing. A content that
  /// is put meanwhile is in the store, or its ticket has an error. Errors: what could not be
  /// written or published; of a durable store, the first failed write there that no ticket and no
  /// call has reported; called in a ticket's callback.
  Result<void> close_namespace(NamespaceId space);

  /// Makes a tensor known; it has no content yet. Errors: name taken in this namespace, empty,
  /// longer than 4 KiB or with control characters; 0 bytes, or 2^63 and more.
  Result<TensorId> declare(NamespaceId space, TensorInfo info);
  /// The same for a put that is to follow at once: should that fail, and no other content have
  /// come, the tensor is unknown again and its name free.
  Result<TensorId> declare_to_put(NamespaceId space, TensorInfo info);
  /// Removes a tensor; from a durable store with the next flush().
  Result<void> forget(TensorId tensor);
  /// Gives a tensor the name that users know, once that is known; rules match it from the next
  /// plan() on. Errors: as declare()'s of the name.
  Result<void> rename(TensorId tensor, std::string name);
  /// Says whether training rewrites a parameter each step (as declared: TensorInfo::is_trained),
  /// which counts in the next plan().
  Result<void> set_trained(TensorId tensor, bool is_trained);
  Result<std::shared_ptr<const TensorInfo>> info(TensorId tensor) const;
  std::optional<TensorId> find(NamespaceId space, const std::string& name) const;
  /// All of a namespace, in natural order of their names.
  std::vector<TensorId> tensors(NamespaceId space) const;
  /// Human-readable state of a tensor: where it is, how large, which generation.
  Result<TensorState> state(TensorId tensor) const;

 protected:
  TensorDirectory(std::shared_ptr<EngineCore> core, std::shared_ptr<TraceLog> trace);
  ~TensorDirectory() = default;

  // What `call` gives of the core; in a child made by fork() an error, or nothing.
  template <class Call>
  auto guarded(Call call) const -> std::invoke_result_t<Call, EngineCore&>;
  // Does `note` with the trace, where one is wanted.
  template <class Note>
  void trace(Note note) const;
  void trace_use(TraceOp op, TensorId tensor) const noexcept;

  std::shared_ptr<EngineCore> core_;
  std::shared_ptr<TraceLog> trace_;  // null: none is wanted
  ProcessMark process_;

 private:
  Result<TensorId> declare(NamespaceId space, TensorInfo info, bool to_put);
};

}  // namespace penstock
