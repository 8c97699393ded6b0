#pragma once

#include <type_traits>

#include "swap/tensor_directory.h"
#include "swap/ticket.h"

namespace penstock {

inline Error of_another_process() {
  return fault(Fault::kClosed,
               "the swap engine is of the process that forked this one, which must open its own");
}

/// What a call gives in a forked child.
template <class Given>
Given refused() {
  if constexpr (std::is_same_v<Given, Ticket>) {
    return Ticket::failed(of_another_process());
  } else if constexpr (std::is_constructible_v<Given, Error>) {
    return of_another_process();
  } else {
    return Given();
  }
}

template <class Call>
auto TensorDirectory::guarded(Call call) const -> std::invoke_result_t<Call, EngineCore&> {
  if (process_.elsewhere()) {
    return refused<std::invoke_result_t<Call, EngineCore&>>();
  }
  return call(*core_);
}

template <class Note>
void TensorDirectory::trace(Note note) const {
  if (trace_) {
    note(*trace_);
  }
}

}  // namespace penstock
